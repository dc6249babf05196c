//! The task sentence-similarity: a vector for each text, the mean of its tokens', so that texts
//! that mean the same have near ones (Reimers and Gurevych 2019, as in sentence-transformers).

use burn::tensor::Tensor;

use super::atomic_directory::AtomicDirectory;
use super::batch::Batch;
use super::encoder::EncoderConfig;
use super::encoder_model::{EncoderHead, EncoderModel};
use super::floats::{as_f32, real};
use super::layers::{ForwardContext, HiddenStates, cross_entropy, logits};
use super::metrics::{Metrics, RegressionMetrics, log_softmax};
use super::parameters::{Parameters, host, tensor};
use super::prepared::{Description, Extra};
use super::sentence_pairs;
use super::sequence_classification::squared_error;
use super::sources::Sources;
use super::task::{EvaluationSet, MicroBatch, ModelInput};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::{Pooling, TaskKind};

/// No head: the vectors are the encoder's.
pub(super) struct SentenceSimilarity;

/// The factor of cosines as logits, sentence-transformers' `MultipleNegativesRankingLoss.scale`.
const SCALE: f64 = 20.0;

/// Pairs of an evaluation among whose second texts each first text looks for its own.
const AMONG: usize = 128;

impl EncoderModel<SentenceSimilarity> {
    /// The vector of each text, of length 1, `[texts, width]`.
    pub(super) fn vectors(&self, context: &ForwardContext, batch: &Batch) -> Tensor<2> {
        self.vectors_of(context, self.encoder.forward(context, batch), batch)
    }

    /// The same from the encoder's final hidden states.
    fn vectors_of(&self, context: &ForwardContext, x: HiddenStates, batch: &Batch) -> Tensor<2> {
        let mean = self.encoder.pool(context, batch, x, Pooling::Mean);
        let length = mean.clone().square().sum_dim(1).sqrt().clamp_min(1e-12);
        mean / length
    }

    /// Both texts of each row of a split, one after the other: the tokens of a row stand together.
    fn both(&self, data: &PreparedData, split: Split, rows: &[usize]) -> Batch {
        let texts = [Some(data.split(split)), data.extras(Extra::SecondTexts, split)];
        let pairs = rows.iter().flat_map(|row| {
            texts.iter().flatten().map(|texts| texts.ids(*row).collect::<Vec<u32>>())
        });
        Batch::truncated(pairs, self.architecture.max_tokens())
    }
}

/// The vectors of first and of second texts, `[pairs, width]` each.
fn split_pairs(vectors: Tensor<2>) -> [Tensor<2>; 2] {
    let [texts, width] = vectors.dims();
    let pairs = vectors.reshape([texts / 2, 2 * width]);
    [pairs.clone().narrow(1, 0, width), pairs.narrow(1, width, width)]
}

impl EncoderHead for SentenceSimilarity {
    fn prepare(
        _: TaskKind,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        sentence_pairs::prepare(sources, staged)
    }

    fn new(_: &mut Parameters, _: &EncoderConfig) -> Self {
        Self
    }

    /// The tokens of both texts of a pair together.
    fn length(model: &EncoderModel<Self>, data: &PreparedData, row: usize) -> usize {
        let texts = [Some(data.split(Split::Train)), data.extras(Extra::SecondTexts, Split::Train)];
        let longest = model.architecture.max_tokens();
        texts.into_iter().flatten().map(|texts| texts.length(row).min(longest)).sum()
    }

    fn batch(model: &EncoderModel<Self>, micro_batch: &MicroBatch<'_>) -> Batch {
        model.both(micro_batch.data, Split::Train, micro_batch.chosen)
    }

    /// With similarities the squared error of the cosines (sentence-transformers'
    /// `CosineSimilarityLoss`); else each first text has to tell its second one among those of the
    /// micro-batch (`MultipleNegativesRankingLoss`).
    fn loss(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let vectors = model.vectors_of(context, x, &input.batch);
        let (pairs, share) = (micro_batch.chosen.len(), 1.0 / real(micro_batch.step_targets));
        let [first, second] = split_pairs(vectors);
        if micro_batch.data.has_scores() {
            let rows = micro_batch.data.split(Split::Train);
            let scores = micro_batch.chosen.iter().map(|row| rows.number_of(*row)).collect();
            let cosines = (first * second).sum_dim(1);
            return squared_error(cosines, tensor(scores, [pairs, 1], context.device)) * share;
        }
        let own: Vec<u32> = (0..pairs).filter_map(|pair| u32::try_from(pair).ok()).collect();
        let cosines = logits(context, first, second);
        cross_entropy(cosines * SCALE, own.into(), micro_batch.smoothing, share)
    }

    fn measure(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        let rows = data.split(set.split);
        let chosen = set.chosen(rows.len());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for part in chosen.chunks(set.batch) {
            let vectors = host(model.vectors(context, &model.both(data, set.split, part)))?;
            let width = vectors.len() / (2 * part.len());
            for pair in vectors.chunks(2 * width) {
                first.push(pair[..width].to_vec());
                second.push(pair[width..].to_vec());
            }
            on_progress(first.len(), chosen.len());
        }
        if data.has_scores() {
            let mut metrics = RegressionMetrics::default();
            for (pair, row) in chosen.iter().enumerate() {
                metrics.add(cosine(&first[pair], &second[pair]), rows.number_of(*row));
            }
            let mut metrics = metrics.compute();
            metrics.retain(|name, _| ["loss", "pearson", "spearmanr"].contains(name));
            return Ok(metrics);
        }
        Ok(found(&first, &second))
    }

    fn is_compatible(config: &EncoderConfig, data: &PreparedData) -> bool {
        data.extras(Extra::SecondTexts, Split::Train).is_some()
            && config.shape.vocabulary >= data.vocab_size()
    }
}

/// How well each first text finds its second one among those of [`AMONG`] pairs: the loss as in
/// training, how often it is the nearest (`accuracy`), and the mean of the inverse of its rank
/// (`mrr`).
fn found(first: &[Vec<f32>], second: &[Vec<f32>]) -> Metrics {
    let (mut loss, mut nearest, mut inverse_ranks) = (0.0, 0, 0.0);
    for (first, second) in first.chunks(AMONG).zip(second.chunks(AMONG)) {
        for (own, vector) in first.iter().enumerate() {
            let scale = as_f32(SCALE);
            let cosines: Vec<f32> =
                second.iter().map(|other| scale * cosine(vector, other)).collect();
            loss -= log_softmax(&cosines)[own];
            let nearer = cosines.iter().filter(|cosine| **cosine > cosines[own]).count();
            nearest += usize::from(nearer == 0);
            inverse_ranks += 1.0 / real(nearer + 1);
        }
    }
    let pairs = real(first.len());
    [("loss", loss / pairs), ("accuracy", real(nearest) / pairs), ("mrr", inverse_ranks / pairs)]
        .into()
}

/// Of vectors of length 1.
pub(super) fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_looked_for_among_all_of_its_group() {
        let [a, b, c] = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]].map(Vec::from);
        let metrics = found(&[a.clone(), b.clone(), c.clone()], &[a.clone(), c, b]);
        // The first text finds its own, the others find theirs second.
        assert_eq!(metrics["accuracy"], 1.0 / 3.0);
        assert!((metrics["mrr"] - 2.0 / 3.0).abs() < 1e-12);
        // torch.nn.functional.cross_entropy of 20 times the cosines.
        let loss = |cosines: [f64; 3], own: usize| {
            let sum: f64 = cosines.iter().map(|cosine| (20.0 * cosine).exp()).sum();
            sum.ln() - 20.0 * cosines[own]
        };
        let expected =
            loss([1.0, 0.6, 0.0], 0) + loss([0.0, 0.8, 1.0], 1) + loss([0.6, 1.0, 0.8], 2);
        assert!((metrics["loss"] - expected / 3.0).abs() < 1e-5, "{}", metrics["loss"]);
        // Groups of their own.
        let many = vec![a; AMONG + 1];
        assert_eq!(found(&many, &many)["accuracy"], 1.0);
    }
}
