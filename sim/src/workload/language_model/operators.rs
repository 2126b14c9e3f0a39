//! The operators of one step of a language model.
//!
//! Products of activations and weights are separated as in engines: gate and up are one
//! weight matrix (`HeteroInfer`, Table 3: 28672 rows for Llama-3-8B), queries, keys and
//! values are three. The operators between the products are not fused, as the engine
//! runs them as separate GPU kernels (`HeteroInfer`, figure 6). Query heads that share
//! keys and values are rows of one product, so that the KV cache is read once.

use super::{LanguageModel, TokenStep};
use crate::workload::operator::Operator;
use crate::workload::{
    DataType, Elementwise, Embedding, Function, Layer, Linear, MatMul, Norm, NormKind, Read, Shape, Softmax,
    Stage,
};

/// The stages of a layer under construction.
struct Layers {
    data_type: DataType,
    stages: Vec<Stage>,
}

impl Layers {
    /// Adds an operator that reads the stages `inputs` and `outside` other tensors.
    fn add(&mut self, name: &str, operator: Operator, inputs: &[usize], outside: usize) -> usize {
        self.stages.push(Stage {
            name: name.to_owned(),
            layer: Layer::new(operator, self.data_type),
            reads: (0..).zip(inputs).map(|(position, &input)| Read { position, input }).collect(),
            input_count: inputs.len() + outside,
            constants: Vec::new(),
            nodes: Vec::new(),
            shares_weights: false,
        });
        self.stages.len() - 1
    }
}

fn linear(rows: u32, input_features: u32, output_features: u32, bias: bool) -> Operator {
    Operator::Linear(Linear { rows, input_features, output_features, bias })
}

fn rms_norm(tokens: u32, features: u32) -> Operator {
    Operator::Norm(Norm { kind: NormKind::Rms, input: Shape::tokens(tokens, features) })
}

fn pairwise(function: Function, input: Shape) -> Operator {
    Operator::Elementwise(Elementwise { function, input, other: Some(input) })
}

impl LanguageModel {
    /// Before the first layer: the tokens' embeddings.
    pub fn first_stages(&self, step: TokenStep, data_type: DataType) -> Vec<Stage> {
        let mut layers = Layers { data_type, stages: Vec::new() };
        let table = Embedding { rows: step.tokens, vocabulary: self.vocabulary, features: self.features };
        layers.add("embedding", Operator::Embedding(table), &[], 1);
        layers.stages
    }

    /// One decoder layer; its first operator and its first sum read the result of the layer
    /// before.
    pub fn layer_stages(&self, step: TokenStep, data_type: DataType) -> Vec<Stage> {
        let mut layers = Layers { data_type, stages: Vec::with_capacity(16) };
        let sum = self.attention(&mut layers, step);
        self.feed_forward(&mut layers, step.tokens, sum);
        layers.stages
    }

    /// After the last layer: the logits of the successors of `tokens` tokens.
    pub fn last_stages(&self, tokens: u32, data_type: DataType) -> Vec<Stage> {
        let mut layers = Layers { data_type, stages: Vec::new() };
        let norm = layers.add("last-norm", rms_norm(tokens, self.features), &[], 1);
        let head = linear(tokens, self.features, self.vocabulary, false);
        layers.add("lm-head", head, &[norm], 0);
        layers.stages
    }

    /// The operators whose work depends on the context: attention scores, softmax, and the
    /// weighted sum of the values.
    pub fn over_context(&self, TokenStep { tokens, context }: TokenStep) -> [Operator; 3] {
        let group = self.heads / self.key_value_heads.max(1);
        let scores = MatMul {
            images: 1,
            batch: self.key_value_heads,
            m: tokens.saturating_mul(group),
            k: self.head_features,
            n: context,
        };
        let weights = Shape { batch: self.heads, height: 1, width: tokens, channels: context };
        let mix = MatMul { k: context, n: self.head_features, ..scores };
        [Operator::MatMul(scores), Operator::Softmax(Softmax { input: weights }), Operator::MatMul(mix)]
    }

    /// Attention and its residual sum.
    fn attention(&self, layers: &mut Layers, step: TokenStep) -> usize {
        let tokens = step.tokens;
        let queries = self.heads.saturating_mul(self.head_features);
        let keys = self.key_value_heads.saturating_mul(self.head_features);
        let project = |features| linear(tokens, self.features, features, self.attention_bias);
        let rotate = |features| pairwise(Function::Multiply, Shape::tokens(tokens, features));

        let norm = layers.add("attention-norm", rms_norm(tokens, self.features), &[], 1);
        let query = layers.add("q", project(queries), &[norm], 0);
        let key = layers.add("k", project(keys), &[norm], 0);
        let value = layers.add("v", project(keys), &[norm], 0);
        let query = layers.add("rotate-q", rotate(queries), &[query], 1);
        let key = layers.add("rotate-k", rotate(keys), &[key], 1);
        let [scores, softmax, mixed] = self.over_context(step);
        // Keys and values of earlier tokens are in the KV cache.
        let scores = layers.add("scores", scores, &[query, key], 1);
        let softmax = layers.add("softmax", softmax, &[scores], 0);
        let mixed = layers.add("mix", mixed, &[softmax, value], 1);
        let output = layers.add("o", linear(tokens, queries, self.features, false), &[mixed], 0);
        let sum = pairwise(Function::Add, Shape::tokens(tokens, self.features));
        layers.add("attention-sum", sum, &[output], 1)
    }

    /// The gated feed-forward network and its residual sum.
    fn feed_forward(&self, layers: &mut Layers, tokens: u32, residual: usize) {
        let wide = self.feed_forward_features;
        let norm = layers.add("feed-forward-norm", rms_norm(tokens, self.features), &[residual], 0);
        let gate_up = linear(tokens, self.features, wide.saturating_mul(2), false);
        let gate_up = layers.add("gate-up", gate_up, &[norm], 0);
        let gated = pairwise(Function::Multiply, Shape::tokens(tokens, wide));
        let gated = layers.add("swiglu", gated, &[gate_up], 0);
        let down = layers.add("down", linear(tokens, wide, self.features, false), &[gated], 0);
        let sum = pairwise(Function::Add, Shape::tokens(tokens, self.features));
        layers.add("feed-forward-sum", sum, &[down, residual], 0);
    }
}
