//! What a tool takes: one table a tool, from which come both the schema that a model is given and the check
//! of what it sends.
//!
//! Invariant: what passes the check is valid under the schema, save that null stands for an argument left
//! out.

use serde_json::{Map, Number, Value, json};

use super::answer::{ToolError, shown};
use crate::position::{Frame, Time};

/// Doubles from here on are integers, and stand for others beside them that they were rounded from.
const ROUNDED_FROM: f64 = 9_007_199_254_740_992.0;

/// The handle that is meant unless another one is named.
const HANDLE: &str = "main";

/// One argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    name: &'static str,
    kind: Kind,
    required: bool,
    about: &'static str,
}

/// What an argument is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Count {
        min: u64,
        max: u64,
    },
    Moment,
    Json,
    Object,
    /// Any whole number, which may make no sense: the answer says so.
    Number,
    /// First and last line.
    Range,
    OneOf(&'static [&'static str]),
}

/// A frame, or the last one that is not later than a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    Frame(Frame),
    Time(Time),
}

/// Arguments that were checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'a>(Option<&'a Map<String, Value>>);

impl Param {
    /// The moment that a read looks at.
    pub(super) const AT: Param = Param::moment(
        "at",
        "Read the state as of this frame number, or as of this time (RFC 3339, such as \
            2026-11-30T12:00:00Z). Leave it out to read the present.",
    )
    .optional();

    pub(super) const fn text(name: &'static str, about: &'static str) -> Param {
        Param { name, kind: Kind::Text, required: true, about }
    }

    pub(super) const fn moment(name: &'static str, about: &'static str) -> Param {
        Param { name, kind: Kind::Moment, required: true, about }
    }

    pub(super) const fn json(name: &'static str, about: &'static str) -> Param {
        Param { name, kind: Kind::Json, required: true, about }
    }

    /// A JSON object that may be left out.
    pub(super) const fn object(name: &'static str, about: &'static str) -> Param {
        Param { name, kind: Kind::Object, required: false, about }
    }

    /// A number that may be left out.
    pub(super) const fn count(name: &'static str, min: u64, max: u64, about: &'static str) -> Param {
        Param { name, kind: Kind::Count { min, max }, required: false, about }
    }

    pub(super) const fn one_of(
        name: &'static str,
        of: &'static [&'static str],
        about: &'static str,
    ) -> Param {
        Param { name, kind: Kind::OneOf(of), required: true, about }
    }

    /// A whole number of any sign.
    pub(super) const fn number(name: &'static str, about: &'static str) -> Param {
        Param { name, kind: Kind::Number, required: true, about }
    }

    /// Two whole numbers of any sign.
    pub(super) const fn range(name: &'static str, about: &'static str) -> Param {
        Param { name, kind: Kind::Range, required: true, about }
    }

    pub(super) const fn optional(self) -> Param {
        Param { required: false, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Count { min, max: u64::MAX } => json!({"type": "integer", "minimum": min}),
            Kind::Count { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Kind::Moment => json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
            Kind::Number => json!({"type": "integer"}),
            Kind::Range => {
                json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2})
            }
            Kind::OneOf(of) => json!({"type": "string", "enum": of}),
            Kind::Json => json!({}),
            Kind::Object => json!({"type": "object"}),
        };
        if let Some(fields) = schema.as_object_mut() {
            fields.insert("description".to_owned(), self.about.into());
        }
        schema
    }

    fn check(&self, tool: &str, value: &Value) -> Result<(), ToolError> {
        let (fits, expected) = match self.kind {
            Kind::Text => (value.is_string(), "a string".to_owned()),
            Kind::Count { min, max } => {
                let expected = if max == u64::MAX {
                    format!("an integer of at least {min}")
                } else {
                    format!("an integer from {min} to {max}")
                };
                (integer(value).is_some_and(|n| (min..=max).contains(&n)), expected)
            }
            Kind::Moment => (moment(value).is_some(), MOMENT.to_owned()),
            Kind::Number => (signed(value).is_some(), "a whole number".to_owned()),
            Kind::Range => (range(value).is_some(), "two whole numbers, such as [1, 10]".to_owned()),
            Kind::OneOf(of) => {
                (value.as_str().is_some_and(|text| of.contains(&text)), format!("one of {}", of.join(", ")))
            }
            Kind::Json => (true, String::new()),
            Kind::Object => (value.is_object(), "a JSON object".to_owned()),
        };
        let name = self.name;
        if fits {
            let number = if matches!(self.kind, Kind::Json | Kind::Object) { rounded(value) } else { None };
            return number.map_or(Ok(()), |number| {
                Err(ToolError::bad(format!(
                    "`{name}` of {tool} holds the number {number}, which may have been rounded on the way: from 2^53 on \
                        only 64-bit integers, written without a fraction or an exponent, arrive as they were sent; call \
                        it again with this number as a string"
                )))
            });
        }
        let found = shown(&value.to_string());
        Err(ToolError::bad(format!(
            "`{name}` of {tool} is {found}, expected {expected}; call it again with that"
        )))
    }
}

const MOMENT: &str = "the number of a frame, or a time as RFC 3339, such as 2026-11-30T12:00:00Z";

/// The schema of a tool's arguments.
pub(super) fn schema(params: &[Param]) -> Value {
    let properties: Map<String, Value> =
        params.iter().map(|param| (param.name.to_owned(), param.schema())).collect();
    let required: Vec<&str> = params.iter().filter(|param| param.required).map(|param| param.name).collect();
    super::object(&required, Value::Object(properties))
}

impl<'a> Args<'a> {
    /// Holds the arguments of a call against what the tool takes.
    ///
    /// # Errors
    /// A bad argument, named, with what was expected.
    pub(super) fn check(tool: &str, params: &[Param], arguments: &'a Value) -> Result<Args<'a>, ToolError> {
        let fields = match arguments {
            Value::Object(fields) => Some(fields),
            Value::Null => None,
            other => {
                let found = shown(&other.to_string());
                return Err(ToolError::bad(format!(
                    "the arguments of {tool} are {found}, expected a JSON object"
                )));
            }
        };
        let args = Args(fields);
        for name in fields.into_iter().flat_map(Map::keys) {
            if !params.iter().any(|param| param.name == name) {
                let known: Vec<&str> = params.iter().map(|param| param.name).collect();
                let (name, known) = (shown(name), known.join(", "));
                return Err(ToolError::bad(format!("{tool} has no argument {name}; it takes {known}")));
            }
        }
        for param in params {
            // Null is a JSON value like any other where any is asked for.
            let is_any = matches!(param.kind, Kind::Json);
            match fields.and_then(|fields| fields.get(param.name)).filter(|value| is_any || !value.is_null())
            {
                Some(value) => param.check(tool, value)?,
                None if param.required => {
                    let Param { name, about, .. } = param;
                    return Err(ToolError::bad(format!("{tool} needs `{name}`: {about}")));
                }
                None => {}
            }
        }
        Ok(args)
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    /// A text; empty if it was left out.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.optional_text(name).unwrap_or_default()
    }

    pub(super) fn optional_text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// Which handle of its kind is meant.
    pub(super) fn handle(&self) -> &'a str {
        self.optional_text("name").unwrap_or(HANDLE)
    }

    pub(super) fn count(&self, name: &str) -> Option<u64> {
        integer(self.get(name)?)
    }

    /// A number of items, or how many there are unless it is given.
    pub(super) fn size(&self, name: &str, otherwise: usize) -> usize {
        self.count(name).map_or(otherwise, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// Any JSON value; null if it was left out.
    pub(super) fn json(&self, name: &str) -> &'a Value {
        self.0.and_then(|fields| fields.get(name)).unwrap_or(&Value::Null)
    }

    pub(super) fn object(&self, name: &str) -> Option<&'a Value> {
        self.get(name)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        signed(self.get(name)?)
    }

    pub(super) fn range(&self, name: &str) -> Option<[i64; 2]> {
        range(self.get(name)?)
    }

    /// A moment, if there is one.
    ///
    /// # Errors
    /// None of arguments that were checked.
    pub(super) fn moment(&self, name: &str) -> Result<Option<Moment>, ToolError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        moment(value)
            .map(Some)
            .ok_or_else(|| ToolError::bad(format!("`{name}` is no moment, expected {MOMENT}")))
    }
}

/// A number in a value that may have been sent as another one. What `serde_json` holds as an integer was sent as that.
fn rounded(value: &Value) -> Option<&Number> {
    let is_exact = |number: &Number| {
        number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.abs() < ROUNDED_FROM)
    };
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            Value::Number(number) if !is_exact(number) => return Some(number),
            _ => {}
        }
    }
    None
}

/// An integer, also in the way that a JSON number with a fraction of zero is one.
fn integer(value: &Value) -> Option<u64> {
    let whole = |float: f64| float.fract() == 0.0 && (0.0..9e15).contains(&float);
    value.as_u64().or_else(|| value.as_f64().filter(|float| whole(*float)).map(|float| float as u64))
}

fn signed(value: &Value) -> Option<i64> {
    let whole = |float: f64| float.fract() == 0.0 && float.abs() < 9e15;
    value.as_i64().or_else(|| value.as_f64().filter(|float| whole(*float)).map(|float| float as i64))
}

fn range(value: &Value) -> Option<[i64; 2]> {
    let [first, last] = value.as_array()?.as_slice() else { return None };
    Some([signed(first)?, signed(last)?])
}

fn moment(value: &Value) -> Option<Moment> {
    let Some(text) = value.as_str() else { return integer(value).map(|n| Moment::Frame(Frame(n))) };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(|n| Moment::Frame(Frame(n)));
    }
    text.parse().ok().map(Moment::Time)
}
