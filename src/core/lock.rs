//! How shared cells are locked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a cell that is never left half-written: a panic elsewhere does not make its value wrong.
pub fn lock<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}
