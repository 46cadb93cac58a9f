//! Lists of nodes as people and Slurm write them: `node3,node4` and `gpu[01-04,07]`.

/// Names that one list may stand for.
const NAMES_MAX: usize = 4_096;

/// Names of nodes, each once, in the order in which they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nodes(pub(crate) Vec<String>);

/// The names that a list stands for.
///
/// # Errors
/// The list is empty or too long, or its brackets do not fit; in words.
pub(crate) fn expanded(list: &str) -> Result<Nodes, String> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries(list)? {
        for name in names_of(entry)? {
            if names.len() >= NAMES_MAX {
                return Err(format!("more than {NAMES_MAX} names"));
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() { Err("name at least one node".to_owned()) } else { Ok(Nodes(names)) }
}

/// The parts between commas; commas within brackets part nothing.
fn entries(list: &str) -> Result<Vec<&str>, String> {
    let (mut found, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in list.char_indices() {
        match (letter, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            ('[', true) | (']', false) => {
                return Err("its brackets do not fit, as in gpu[01-04,07]".to_owned());
            }
            (',', false) => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("a bracket is not closed, as in gpu[01-04,07]".to_owned());
    }
    found.push(&list[start..]);
    Ok(found.into_iter().map(str::trim).filter(|entry| !entry.is_empty()).collect())
}

/// All names of one entry; each pair of brackets multiplies them.
fn names_of(entry: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = entry.split_once('[') else { return Ok(vec![entry.to_owned()]) };
    let (ranges, after) = rest.split_once(']').unwrap_or((rest, ""));
    let after = names_of(after)?;
    let mut names = Vec::new();
    for range in ranges.split(',') {
        for number in numbers(range.trim())? {
            if names.len() + after.len() > NAMES_MAX {
                return Err(format!("more than {NAMES_MAX} names"));
            }
            names.extend(after.iter().map(|after| format!("{before}{number}{after}")));
        }
    }
    Ok(names)
}

/// `01-04` or `7`; leading zeros stay.
fn numbers(range: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("'{range}' is not a number or a range such as 01-04");
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let digits = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let (from, to) = digits(first).zip(digits(last)).ok_or_else(wrong)?;
    if to < from || (to - from) as usize >= NAMES_MAX {
        return Err(wrong());
    }
    let width = first.len();
    Ok((from..=to).map(|number| format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        expanded(list).unwrap().0
    }

    #[test]
    fn lists_of_people_and_of_slurm_name_the_same_nodes() {
        assert_eq!(names("a, b,a"), ["a", "b"]);
        assert_eq!(names("gpu[01-03,07],login"), ["gpu01", "gpu02", "gpu03", "gpu07", "login"]);
        assert_eq!(names("r[1-2]n[8-10]"), ["r1n8", "r1n9", "r1n10", "r2n8", "r2n9", "r2n10"]);
        assert_eq!(names("n[9-11]-ib"), ["n9-ib", "n10-ib", "n11-ib"]);
    }

    #[test]
    fn what_is_no_list_is_refused_and_a_list_stays_bounded() {
        for bad in [
            "",
            ",",
            "a[1-2",
            "a1-2]",
            "a[2-1]",
            "a[x]",
            "a[]",
            "a[1-99999]",
            "a[[1]]",
            "a[+1]",
            "a[1-100]b[1-100]",
        ] {
            assert!(expanded(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
