//! An agent's loop with a durable memory: the model sees the index of its notes, calls tools, and is answered, until it
//! has something to say. Calls that fail are answered too, with the sentence that tells the model how to mend them.
//!
//! The model is a script, so that this runs anywhere: put a call of your model's API in the place of `Script::reply`.
//! Run it with `cargo run --example agent_loop`.

use std::collections::VecDeque;
use std::error::Error;

use mnemolog::tools::{Choice, Tool, Toolbox};
use mnemolog::{Origin, Store};
use serde_json::{Value, json};

/// What a model answers to a prompt: it calls tools, or says something.
enum Reply {
    Call(&'static str, Value),
    Say(&'static str),
}

/// A model that says what stands in a script.
struct Script(VecDeque<Reply>);

impl Script {
    /// `prompt` is what a model would be sent, and `tools` what it would be told that it can call.
    fn reply(&mut self, prompt: &[String], tools: &[Tool]) -> Option<Reply> {
        assert!(!prompt.is_empty() && !tools.is_empty());
        self.0.pop_front()
    }
}

/// One session: a fresh context, whose only memory is the workspace.
fn session(store: &Store, name: &str, user: &str, model: &mut Script) -> Result<(), Box<dyn Error>> {
    let origin = Origin { session: Some(name.to_owned()), ..Origin::default() };
    let core = store.workspace("core")?.with_origin(origin)?;
    let tools = Toolbox::new(&core).only(Choice::Notes)?;
    // At most 500 tokens of index; the newest notes stay.
    let mut prompt = vec![core.notes().index_note_within(500), format!("user: {user}")];
    println!("== {name}\n{}", prompt.join("\n").trim_start());
    while let Some(reply) = model.reply(&prompt, tools.tools()) {
        match reply {
            Reply::Call(tool, arguments) => {
                let answer = match tools.call(tool, &arguments) {
                    Ok(answer) => answer.text,
                    Err(error) => format!("error: {error}"),
                };
                println!("-> {tool}\n{answer}");
                prompt.push(answer);
            }
            Reply::Say(text) => {
                println!("model: {text}\n");
                break;
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::in_memory()?;
    let mut model = Script(VecDeque::from([
        Reply::Call("memory_remember", json!({"key": "user/tea", "summary": "how Ada takes her tea"})),
        Reply::Call(
            "memory_remember",
            json!({"key": "user/tea", "summary": "how Ada takes her tea", "body": "With milk, no sugar."}),
        ),
        Reply::Say("I will remember that."),
        Reply::Call("memory_recall", json!({"key": "user/tea"})),
        Reply::Call(
            "memory_remember",
            json!({"key": "user/tea", "summary": "how Ada takes her tea", "body": "Black."}),
        ),
        Reply::Say("Black it is; you used to take it with milk."),
    ]));
    session(&store, "monday", "I take my tea with milk, no sugar.", &mut model)?;
    let monday = store.appended();
    session(&store, "friday", "No milk in my tea any more. What did I take before?", &mut model)?;

    println!("What it knew on monday:");
    let tools = Toolbox::new(&store.workspace("core")?).only(Choice::ReadOnly)?;
    println!("{}", tools.call("memory_recall", &json!({"key": "user/tea", "at": monday.0}))?.text);
    Ok(())
}
