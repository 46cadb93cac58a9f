//! The list of panels that may have no data speaks of panels that exist, and each panel has data somewhere.

use rdmascope_tests::dashboards::{When, all, empty, empty_list, folder, queries};

#[test]
fn the_list_of_empty_panels_is_about_what_exists_and_leaves_none_that_nobody_has_seen_with_data() {
    let entries = empty(&empty_list()).unwrap_or_else(|why| panic!("{why}"));
    let queries: Vec<_> = all(&folder()).iter().flat_map(queries).collect();
    for entry in &entries {
        assert!(queries.iter().any(|query| entry.is_about(query)), "no such query: {entry:?}");
        assert!(entry.why.len() > 10, "say why: {entry:?}");
    }
    for query in queries {
        let about: Vec<_> = entries.iter().filter(|entry| entry.is_about(&query)).collect();
        let says = |when| about.iter().any(|entry| entry.when.contains(&when));
        assert!(!(says(When::Here) && says(When::Lab)), "nobody has seen {query:?} with data");
    }
}
