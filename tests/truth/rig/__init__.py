"""The truth rig: what is true, by programs that use none of soakd's code."""
