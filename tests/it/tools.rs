//! The tools that a model can call: what they say of themselves, what they answer, how they refuse.
//!
//! Every answer is held against the tool's own output schema by an independent library, and so is every schema against
//! the rules of JSON Schema. The id in a test's comment is that of the collected case, as in `field`.

mod answers;
mod anything;
mod damaged;
mod files;
mod numbers;
mod refusals;
mod schemas;
mod sharing;

use std::collections::BTreeMap;

use jsonschema::Validator;
use mnemolog::tools::{Answer, Toolbox};
use mnemolog::{Store, Workspace};
use serde_json::Value;

/// A toolbox whose answers are all held against their schemas.
pub(crate) struct Checked {
    tools: Toolbox,
    inputs: BTreeMap<&'static str, Validator>,
    outputs: BTreeMap<&'static str, Validator>,
}

impl Checked {
    pub(crate) fn new(workspace: &Workspace) -> Checked {
        Checked::of(Toolbox::new(workspace))
    }

    pub(crate) fn of(tools: Toolbox) -> Checked {
        let compile = |schema| jsonschema::draft202012::new(schema).expect("a schema");
        let inputs = tools.tools().iter().map(|tool| (tool.name, compile(&tool.input_schema))).collect();
        let outputs = tools.tools().iter().map(|tool| (tool.name, compile(&tool.output_schema))).collect();
        Checked { tools, inputs, outputs }
    }

    /// What a call answers, which is valid, for arguments that are.
    pub(crate) fn call(&self, name: &str, arguments: &Value) -> Answer {
        let given: Vec<String> = self.inputs[name].iter_errors(arguments).map(|e| e.to_string()).collect();
        assert!(given.is_empty(), "{name} {arguments}: {given:?}");
        let answer = self.tools.call(name, arguments).unwrap_or_else(|e| panic!("{name} {arguments}: {e}"));
        assert!(!answer.text.ends_with('\n'), "{name}: {:?}", answer.text);
        self.check(name, &answer);
        answer
    }

    /// Holds an answer against the tool's schema.
    pub(crate) fn check(&self, name: &str, answer: &Answer) {
        let structured = &answer.structured;
        let wrong: Vec<String> = self.outputs[name].iter_errors(structured).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{name}: {structured}: {wrong:?}");
    }

    pub(crate) fn refuses(&self, name: &str, arguments: &Value) -> bool {
        self.tools.call(name, arguments).is_err()
    }

    pub(crate) fn text(&self, name: &str, arguments: &Value) -> String {
        self.call(name, arguments).text
    }
}

pub(crate) fn store() -> Store {
    Store::in_memory().expect("opens")
}
