//! Cycles of a weight-stationary systolic array.

/// Cycles of one R x R array for `[m, n] x [n, k]`, with the second operand
/// stationary: `ceil(n / R) ceil(k / R) (m + 3R - 2) - 1`.
///
/// A fold loads R rows of the stationary tile, then streams `m` rows; the last
/// result leaves 2R - 2 cycles after the last row enters, due to the skew across and
/// down the array. The result is the index of the last cycle, as in SCALE-Sim v3, hence
/// the `- 1`. For R = 32 a fold takes m + 94 cycles.
pub fn systolic_cycles(m: u64, n: u64, k: u64, array: u32) -> u64 {
    let array = u64::from(array);
    let folds = n.div_ceil(array).saturating_mul(k.div_ceil(array));
    let fold = m.saturating_add(3 * array).saturating_sub(2);
    folds.saturating_mul(fold).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Matrix = Vec<Vec<i64>>;

    /// Register-level simulation of one weight-stationary array.
    struct Array {
        size: usize,
        weights: Matrix,
        /// The activation that each element passes to its right neighbour.
        across: Matrix,
        /// The partial sum that each element passes downwards.
        down: Matrix,
        cycle: u64,
    }

    impl Array {
        fn new(size: usize) -> Self {
            let zeros = vec![vec![0; size]; size];
            Self { size, weights: zeros.clone(), across: zeros.clone(), down: zeros, cycle: 0 }
        }

        /// Shifts in one row of weights from above; the others move down.
        fn load_row(&mut self, row: Vec<i64>) {
            self.weights.pop();
            self.weights.insert(0, row);
            self.cycle += 1;
        }

        /// One cycle: every element multiplies, adds and passes on.
        fn step(&mut self, entering: &[i64]) {
            let (across, down) = (self.across.clone(), self.down.clone());
            for row in 0..self.size {
                for column in 0..self.size {
                    let activation = if column == 0 { entering[row] } else { across[row][column - 1] };
                    let above = if row == 0 { 0 } else { down[row - 1][column] };
                    self.across[row][column] = activation;
                    self.down[row][column] = above + activation * self.weights[row][column];
                }
            }
            self.cycle += 1;
        }
    }

    fn element(matrix: &Matrix, row: usize, column: usize) -> i64 {
        matrix.get(row).and_then(|values| values.get(column)).copied().unwrap_or(0)
    }

    /// Multiplies on one array, fold by fold; returns the product and the index of the cycle in
    /// which its last result left the array.
    fn multiply(left: &Matrix, right: &Matrix, size: usize) -> (Matrix, u64) {
        let (m, n, k) = (left.len(), right.len(), right[0].len());
        let mut array = Array::new(size);
        let mut product = vec![vec![0; k.next_multiple_of(size)]; m];
        let mut last_result = 0;
        for first_column in (0..k).step_by(size) {
            for first_row in (0..n).step_by(size) {
                for row in (0..size).rev() {
                    let tile = (0..size).map(|j| element(right, first_row + row, first_column + j));
                    array.load_row(tile.collect());
                }
                let mut results = 0;
                let start = array.cycle;
                while results < m * size {
                    let time = (array.cycle - start) as usize;
                    // Row i of the array receives its activations i cycles late.
                    let entering: Vec<i64> = (0..size)
                        .map(|i| time.checked_sub(i).map_or(0, |row| element(left, row, first_row + i)))
                        .collect();
                    last_result = array.cycle;
                    array.step(&entering);
                    for column in 0..size {
                        let delay = size - 1 + column;
                        if (delay..delay + m).contains(&time) {
                            product[time - delay][first_column + column] += array.down[size - 1][column];
                            results += 1;
                        }
                    }
                }
            }
        }
        for row in &mut product {
            row.truncate(k);
        }
        (product, last_result)
    }

    fn filled(rows: i64, columns: i64, seed: i64) -> Matrix {
        let value = |i: i64, j: i64| (seed + 7 * i + 3 * j * j + i * j) % 11 - 5;
        (0..rows).map(|i| (0..columns).map(|j| value(i, j)).collect()).collect()
    }

    fn reference_product(left: &Matrix, right: &Matrix) -> Matrix {
        left.iter()
            .map(|row| {
                (0..right[0].len()).map(|j| row.iter().zip(right).map(|(a, b)| a * b[j]).sum()).collect()
            })
            .collect()
    }

    #[test]
    fn the_closed_form_counts_the_cycles_of_an_array_built_of_registers() {
        let mut products = 0;
        for size in [1, 2, 3, 4, 8_u32] {
            for (m, n, k) in
                [(1, 1, 1), (5, 8, 8), (9, 7, 3), (16, 4, 12), (3, 17, 9), (20, 8, 1), (2, 2, 19), (31, 5, 6)]
            {
                let (left, right) = (filled(m, n, 1), filled(n, k, 2));
                let (product, cycles) = multiply(&left, &right, size as usize);
                assert_eq!(product, reference_product(&left, &right), "{m}x{n}x{k} on {size}");
                let [m, n, k] = [m, n, k].map(i64::unsigned_abs);
                assert_eq!(cycles, systolic_cycles(m, n, k, size), "{m}x{n}x{k} on {size}");
                products += 1;
            }
        }
        assert!(products >= 30);
    }

    /// Array size, m, n, k and the cycles that SCALE-Sim counts.
    fn counted_by_scale_sim() -> impl Iterator<Item = [u64; 5]> {
        let table = include_str!("../../../tests/golden/systolic_cycles.csv");
        table.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).map(|line| {
            let numbers: Vec<u64> = line.split(',').map(|number| number.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        })
    }

    #[test]
    fn the_closed_form_equals_scale_sim_on_three_array_sizes() {
        let mut products = 0;
        for [array, m, n, k, cycles] in counted_by_scale_sim() {
            let array = u32::try_from(array).unwrap();
            assert_eq!(systolic_cycles(m, n, k, array), cycles, "{m}x{n}x{k} on {array}");
            products += 1;
        }
        assert_eq!(products, 34);
    }

    #[test]
    fn a_fold_of_a_32_by_32_array_takes_94_cycles_more_than_its_rows() {
        // SCALE-Sim v3, 32 x 32, weight stationary: ceil(N/32) ceil(K/32) (M + 94) - 1.
        assert_eq!(systolic_cycles(1, 32, 32, 32), 94);
        assert_eq!(systolic_cycles(4096, 4096, 256, 32), 128 * 8 * (4096 + 94) - 1);
        assert_eq!(systolic_cycles(100, 77, 33, 32), 3 * 2 * (100 + 94) - 1);
    }

    #[test]
    fn steps_occur_in_the_stationary_extents_and_not_in_the_streamed_one() {
        let cycles = |m, n, k| systolic_cycles(m, n, k, 32);
        assert_eq!(cycles(100, 33, 32), cycles(100, 64, 32));
        assert_eq!(cycles(100, 32, 33), cycles(100, 32, 64));
        assert_eq!(cycles(101, 32, 32), cycles(100, 32, 32) + 1);
    }

    #[test]
    fn a_fold_of_an_array_of_128_takes_382_cycles_more_than_its_rows() {
        assert_eq!(systolic_cycles(1024, 256, 128, 128), 2 * (1024 + 382) - 1);
    }
}
