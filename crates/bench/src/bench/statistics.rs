//! Medians and percentiles.

/// The middle value; of an even number of values, the mean of the two in the middle. Zero if there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// The smallest value that at least this share of all values does not exceed. Zero if there are none.
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The median of the pairwise ratios: each round is compared with its neighbour in time, not with another minute.
pub(super) fn ratio(ours: &[f64], peer: &[f64]) -> f64 {
    let ratios: Vec<f64> =
        ours.iter().zip(peer).filter(|(_, peer)| **peer > 0.0).map(|(our, peer)| our / peer).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), 50.0);
        assert_eq!(percentile(&values, 0.99), 99.0);
        assert_eq!(percentile(&values, 1.0), 100.0);
        assert_eq!(percentile(&[7.0], 0.01), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn ratios_compare_neighbours() {
        assert_eq!(ratio(&[1.0, 10.0, 3.0], &[2.0, 20.0, 6.0]), 0.5);
        assert_eq!(ratio(&[1.0], &[0.0]), 0.0);
    }
}
