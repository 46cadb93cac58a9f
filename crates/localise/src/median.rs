//! The median of the cells of a matrix, the yardstick for "slow".

/// Middle value (the lower of the two middle ones for an even count); `None` for nothing.
#[must_use]
pub fn median(values: &mut [u64]) -> Option<u64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle_value_whatever_the_order() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [7]), Some(7));
        assert_eq!(median(&mut [9, 1, 5]), Some(5));
        assert_eq!(median(&mut [9, 1, 5, 7]), Some(5));
    }
}
