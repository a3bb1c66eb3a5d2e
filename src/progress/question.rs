//! What may stand in braces in a query: `{run}` for the id of the run, and `{partition}` for each partition of the stream.
//!
//! A query with `{partition}` is asked for every partition at once, joined by UNION ALL. A condition on one partition finds the
//! highest value at the end of an index; grouping by partition reads all of it, because few planners skip.

/// Stands for the id of the run.
const RUN: &str = "{run}";
/// Stands for each partition in turn.
const PARTITION: &str = "{partition}";

/// Puts the run's id in its place.
pub(super) fn with_run(text: &str, run: &str) -> String {
    text.replace(RUN, run)
}

/// Whether the query speaks of one partition at a time.
pub(super) fn is_by_partition(query: &str) -> bool {
    query.contains(PARTITION)
}

/// The query that is sent, for a stream with so many partitions.
pub(super) fn whole(query: &str, run: &str, partitions: u32) -> String {
    let query = with_run(query, run);
    if !is_by_partition(&query) {
        return query;
    }
    let one = query.trim_end_matches([';', ' ', '\t', '\n', '\r']);
    // The new line ends a comment at the end of the query.
    let each = |partition: u32| format!("({}\n)", one.replace(PARTITION, &partition.to_string()));
    (0..partitions).map(each).collect::<Vec<_>>().join("\nUNION ALL\n")
}

/// Whether the query leaves some rows out, as far as can be seen: it has more conditions than those by run and partition,
/// which leave no markers out.
pub(super) fn chooses(query: &str) -> bool {
    let query = query.to_ascii_lowercase();
    let words = query.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    let conditions = words.filter(|word| ["where", "and", "filter", "having", "case"].contains(word)).count();
    let ours = |name: &str| {
        let parts: Vec<&str> = query.split(name).collect();
        let before = parts.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().filter(|text| text.trim_end_matches([' ', '\'', '\n', '\t']).ends_with('=')).count()
    };
    conditions > ours(RUN) + ours(PARTITION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_by_partition_is_asked_for_each_and_others_stay_as_they_are() {
        assert_eq!(whole("SELECT 1", "r-1", 3), "SELECT 1");
        assert_eq!(
            whole("SELECT max(x) FROM t WHERE run = '{run}'", "r-1", 3),
            "SELECT max(x) FROM t WHERE run = 'r-1'"
        );
        let by_partition =
            "SELECT {partition}, max(s) FROM t WHERE p = {partition} AND run = '{run}' -- mine ;\n";
        assert_eq!(
            whole(by_partition, "r", 2),
            "(SELECT 0, max(s) FROM t WHERE p = 0 AND run = 'r' -- mine\n)\nUNION ALL\n\
             (SELECT 1, max(s) FROM t WHERE p = 1 AND run = 'r' -- mine\n)"
        );
    }

    #[test]
    fn conditions_by_run_and_partition_choose_nothing() {
        for query in [
            "SELECT partition, max(sequence) FROM t GROUP BY 1",
            "SELECT {partition}, max(sequence) FROM t WHERE partition = {partition}",
            "SELECT partition, max(sequence) FROM nowhere WHERE run = '{run}' GROUP BY partition",
            "SELECT {partition}, max(sequence) FROM t WHERE partition={partition}\nand run =\n'{run}'",
        ] {
            assert!(!chooses(query), "{query}");
        }
        for query in [
            "SELECT partition, max(sequence) FROM t where id < 1000 GROUP BY 1",
            "SELECT partition, max(sequence) FILTER (WHERE NOT marker) FROM t GROUP BY 1",
            "SELECT partition, max(sequence) FROM t WHERE run = '{run}' AND id < 1000 GROUP BY 1",
            "SELECT {partition}, max(sequence) FROM (SELECT * FROM t WHERE id < 9) AS rows WHERE partition = {partition}",
        ] {
            assert!(chooses(query), "{query}");
        }
    }
}
