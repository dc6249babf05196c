//! The distribution of CMA-ES and its update by a generation (Hansen 2016, arXiv 1604.00772, with
//! its equation numbers).

use super::eigen::{Eigen, eigen};

/// Length, relative to the expected one, above which the step of an injected point is shortened
/// (Hansen 2011, "Injecting external solutions into CMA-ES", has 1; the distribution's own points
/// must pass).
const LONG: f64 = 1.5;
const TINY: f64 = 1e-8;

/// A multivariate normal distribution with its evolution paths.
#[derive(Clone, Debug)]
pub(super) struct Evolution {
    constants: Constants,
    mean: Vec<f64>,
    sigma: f64,
    covariance: Vec<Vec<f64>>,
    eigen: Eigen,
    path_of_sigma: Vec<f64>,
    path_of_covariance: Vec<f64>,
    generation: i32,
}

/// Constants derived from the number of axes and the population.
#[derive(Clone, Debug)]
struct Constants {
    population: usize,
    parents: usize,
    weights: Vec<f64>,
    /// `mu_eff`.
    effective: f64,
    /// `c_1`, `c_mu`, `c_c`, `c_sigma`, `d_sigma`.
    rank_one: f64,
    rank_mu: f64,
    cumulation: f64,
    sigma_cumulation: f64,
    damping: f64,
    /// Expected length of a standard normal vector.
    usual_length: f64,
    /// Distance to the border, in deviations, that leaves a discrete axis its minimum probability
    /// of leaving the cell of the mean.
    margin_deviations: f64,
}

impl Constants {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of axes and trials"
    )]
    fn new(axes: usize, population: Option<usize>) -> Self {
        let n = axes as f64;
        let population = population.unwrap_or(4 + (3.0 * n.ln()).floor() as usize).max(4); // 48
        let parents = population / 2;
        let raw: Vec<f64> = (0..population)
            .map(|place| ((population + 1) as f64 / 2.0).ln() - ((place + 1) as f64).ln())
            .collect(); // 49
        let effective_of = |weights: &[f64]| {
            weights.iter().sum::<f64>().powi(2)
                / weights.iter().map(|weight| weight * weight).sum::<f64>()
        };
        let (effective, effective_negative) =
            (effective_of(&raw[..parents]), effective_of(&raw[parents..]));
        let rank_one = 2.0 / ((n + 1.3).powi(2) + effective);
        let rank_mu = (1.0 - rank_one - 1e-8)
            .min(2.0 * (effective - 2.0 + 1.0 / effective) / ((n + 2.0).powi(2) + effective));
        let negative = (1.0 + rank_one / rank_mu) // 50
            .min(1.0 + 2.0 * effective_negative / (effective + 2.0)) // 51
            .min((1.0 - rank_one - rank_mu) / (n * rank_mu)); // 52
        let sum = |keep: fn(&f64) -> bool| {
            raw.iter().filter(|weight| keep(weight)).map(|weight| weight.abs()).sum::<f64>()
        };
        let (positive_sum, negative_sum) =
            (sum(|weight| *weight > 0.0), sum(|weight| *weight < 0.0));
        let weights = raw
            .iter()
            .map(|weight| {
                if *weight >= 0.0 {
                    weight / positive_sum
                } else {
                    negative * weight / negative_sum
                }
            })
            .collect(); // 53
        let sigma_cumulation = (effective + 2.0) / (n + effective + 5.0); // 55
        // The margin of Hamano et al. 2022: a probability of 1 / (axes x population), both sides
        // together.
        let chance = (1.0 / (n * population as f64)).min(0.5);
        Constants {
            population,
            parents,
            weights,
            effective,
            rank_one,
            rank_mu,
            cumulation: (4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n), // 56
            sigma_cumulation,
            damping: 1.0
                + 2.0 * (((effective - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0)
                + sigma_cumulation,
            usual_length: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
            margin_deviations: upper_quantile(chance),
        }
    }
}

/// The upper quantile of the standard normal distribution, by bisection.
fn upper_quantile(mass: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let above = 0.5 * libm::erfc(middle / std::f64::consts::SQRT_2);
        if above > mass { low = middle } else { high = middle }
    }
    low
}

impl Evolution {
    /// An isotropic distribution; the default population unless one is given.
    pub fn new(mean: Vec<f64>, sigma: f64, population: Option<usize>) -> Self {
        let axes = mean.len();
        let identity: Vec<Vec<f64>> = (0..axes)
            .map(|row| (0..axes).map(|column| f64::from(u8::from(row == column))).collect())
            .collect();
        Evolution {
            constants: Constants::new(axes, population),
            sigma,
            eigen: eigen(&identity),
            covariance: identity,
            path_of_sigma: vec![0.0; axes],
            path_of_covariance: vec![0.0; axes],
            mean,
            generation: 0,
        }
    }

    /// Trials of a generation.
    pub fn population(&self) -> usize {
        self.constants.population
    }

    /// The mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The largest standard deviation.
    pub fn widest(&self) -> f64 {
        self.sigma * self.eigen.roots.iter().copied().fold(0.0, f64::max)
    }

    /// Whether the covariance is numerically degenerate or has diverged.
    pub fn is_degenerate(&self) -> bool {
        let (least, most) =
            self.eigen.roots.iter().fold((f64::INFINITY, 0.0f64), |(least, most), root| {
                (least.min(*root), most.max(*root))
            });
        !self.sigma.is_finite()
            || self.sigma > 100.0
            || most > 1e7 * least
            || self.mean.iter().any(|mean| !mean.is_finite())
    }

    /// Maps a standard normal draw to a point; axes with a margin are widened so that they can
    /// leave their cell.
    pub fn sample(&self, noise: &[f64], margins: &[Option<f64>]) -> Vec<f64> {
        let stretched: Vec<f64> =
            noise.iter().zip(&self.eigen.roots).map(|(noise, root)| noise * root).collect();
        let axes = self.mean.len();
        (0..axes)
            .map(|axis| {
                let step: f64 = self.sigma
                    * (0..axes)
                        .map(|other| self.eigen.vectors[axis][other] * stretched[other])
                        .sum::<f64>();
                let deviation = self.sigma * self.covariance[axis][axis].sqrt();
                let wanted = margins[axis]
                    .map_or(0.0, |distance| distance / self.constants.margin_deviations);
                self.mean[axis]
                    + if deviation > 0.0 && wanted > deviation {
                        step * wanted / deviation
                    } else {
                        step
                    }
            })
            .collect()
    }

    /// Updates the distribution with a generation, best first.
    pub fn tell(&mut self, points: &[Vec<f64>]) {
        let axes = self.mean.len();
        let constants = self.constants.clone();
        self.generation += 1;
        #[expect(clippy::cast_precision_loss, reason = "a number of axes")]
        let n = axes as f64;
        let longest = LONG * (n.sqrt() + 2.0 * n / (n + 2.0));
        let mut steps = Vec::with_capacity(points.len());
        let mut lengths = Vec::with_capacity(points.len());
        for point in points {
            let mut step: Vec<f64> = point
                .iter()
                .zip(&self.mean)
                .map(|(position, mean)| (position - mean) / self.sigma)
                .collect();
            let length = norm(&self.eigen.whitened(&step));
            if length > longest {
                step.iter_mut().for_each(|part| *part *= longest / length);
            }
            lengths.push(length.min(longest));
            steps.push(step);
        }
        let weighted: Vec<f64> = (0..axes)
            .map(|axis| {
                steps
                    .iter()
                    .zip(&constants.weights)
                    .take(constants.parents)
                    .map(|(step, weight)| weight * step[axis])
                    .sum()
            })
            .collect(); // 41
        // 42
        self.mean.iter_mut().zip(&weighted).for_each(|(mean, step)| *mean += self.sigma * step);
        let cumulation = constants.sigma_cumulation;
        let gain = (cumulation * (2.0 - cumulation) * constants.effective).sqrt();
        let whitened = self.eigen.whitened(&weighted);
        self.path_of_sigma
            .iter_mut()
            .zip(&whitened)
            .for_each(|(path, step)| *path = (1.0 - cumulation) * *path + gain * step); // 43
        let length = norm(&self.path_of_sigma);
        self.sigma *=
            (cumulation / constants.damping * (length / constants.usual_length - 1.0)).exp(); // 44
        let unbiased = length / (1.0 - (1.0 - cumulation).powi(2 * (self.generation + 1))).sqrt();
        let is_usual = unbiased < (1.4 + 2.0 / (n + 1.0)) * constants.usual_length;
        let (keep, gain) = (
            1.0 - constants.cumulation,
            (constants.cumulation * (2.0 - constants.cumulation) * constants.effective).sqrt(),
        );
        let gain = if is_usual { gain } else { 0.0 };
        self.path_of_covariance
            .iter_mut()
            .zip(&weighted)
            .for_each(|(path, step)| *path = keep * *path + gain * step); // 45
        let lost = if is_usual { 0.0 } else { constants.cumulation * (2.0 - constants.cumulation) };
        let weights: Vec<f64> = constants
            .weights
            .iter()
            .zip(&lengths)
            .map(
                |(weight, length)| {
                    if *weight >= 0.0 { *weight } else { weight * n / (length * length + TINY) }
                },
            )
            .collect(); // 46
        let sum: f64 = constants.weights.iter().sum();
        let keep = 1.0 + constants.rank_one * lost - constants.rank_one - constants.rank_mu * sum;
        for row in 0..axes {
            for column in 0..=row {
                let rank_mu: f64 = steps
                    .iter()
                    .zip(&weights)
                    .map(|(step, weight)| weight * step[row] * step[column])
                    .sum();
                let cell = keep * self.covariance[row][column]
                    + constants.rank_one
                        * self.path_of_covariance[row]
                        * self.path_of_covariance[column]
                    + constants.rank_mu * rank_mu; // 47
                self.covariance[row][column] = cell;
                self.covariance[column][row] = cell;
            }
        }
        self.eigen = eigen(&self.covariance);
    }

    /// Mean, sigma and covariance.
    #[cfg(test)]
    pub fn state(&self) -> (&[f64], f64, &[Vec<f64>]) {
        (&self.mean, self.sigma, &self.covariance)
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|part| part * part).sum::<f64>().sqrt()
}
