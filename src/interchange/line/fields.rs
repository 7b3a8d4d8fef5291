//! The fields of one JSON object, taken by name: what is not taken is unknown.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::reason::LineReason;
use crate::codec::json::{BadJson, Json};

/// The fields that were not taken yet.
pub(in crate::interchange) struct Fields<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    within: &'static str,
}

/// One field and its name.
#[derive(Clone, Copy)]
pub(in crate::interchange) struct Field<'a> {
    name: &'static str,
    raw: &'a RawValue,
}

impl<'a> Fields<'a> {
    /// The fields of the object that `text` is; errors name it `name`, and what it holds `within`.
    pub(in crate::interchange) fn parse(
        text: &'a str,
        name: &'static str,
        within: &'static str,
    ) -> Result<Fields<'a>, LineReason> {
        if !text.trim_start().starts_with('{') {
            // What is no JSON at all is said to be that.
            serde_json::from_str::<&RawValue>(text).map_err(syntax)?;
            return Err(LineReason::WrongType { field: name, expected: "a JSON object" });
        }
        let Pairs(fields) = serde_json::from_str(text).map_err(syntax)?;
        let mut names = HashSet::with_capacity(fields.len());
        if let Some((name, _)) = fields.iter().find(|(name, _)| !names.insert(name)) {
            return Err(LineReason::Twice { field: name.to_string(), within });
        }
        Ok(Fields { fields, within })
    }

    /// Takes a field; one that is null counts as left out.
    pub(in crate::interchange) fn optional(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.take(name).filter(|field| !field.is_null())
    }

    /// Takes a field, whatever it holds.
    pub(in crate::interchange) fn take(&mut self, name: &'static str) -> Option<Field<'a>> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some(Field { name, raw: self.fields.swap_remove(at).1 })
    }

    /// Takes a field that must be there.
    pub(in crate::interchange) fn required(&mut self, name: &'static str) -> Result<Field<'a>, LineReason> {
        self.take(name).ok_or(LineReason::Missing { field: name, within: self.within })
    }

    /// The names of the fields that were not taken.
    pub(in crate::interchange) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }

    /// Sees to it that every field was taken.
    pub(in crate::interchange) fn end(self) -> Result<(), LineReason> {
        match self.fields.into_iter().next() {
            None => Ok(()),
            Some((field, _)) => {
                Err(LineReason::UnknownField { field: field.into_owned(), within: self.within })
            }
        }
    }
}

impl<'a> Field<'a> {
    pub(in crate::interchange) fn is_null(self) -> bool {
        self.raw.get() == "null"
    }

    pub(in crate::interchange) fn is_string(self) -> bool {
        self.raw.get().starts_with('"')
    }

    pub(in crate::interchange) fn text(self) -> Result<String, LineReason> {
        if !self.is_string() {
            return Err(self.wrong("a string"));
        }
        serde_json::from_str(self.raw.get()).map_err(syntax)
    }

    /// A whole number in the type's range, written without a fraction or an exponent.
    pub(in crate::interchange) fn number<T: std::str::FromStr>(
        self,
        expected: &'static str,
    ) -> Result<T, LineReason> {
        self.raw.get().parse().map_err(|_| self.wrong(expected))
    }

    pub(in crate::interchange) fn boolean(self) -> Result<bool, LineReason> {
        match self.raw.get() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// Any value, in canonical text.
    pub(in crate::interchange) fn json(self) -> Result<String, LineReason> {
        Ok(Json::parse(self.raw.get())?.into_string())
    }

    pub(in crate::interchange) fn object(self, within: &'static str) -> Result<Fields<'a>, LineReason> {
        Fields::parse(self.raw.get(), self.name, within)
    }

    pub(in crate::interchange) fn array(self) -> Result<Vec<Field<'a>>, LineReason> {
        if !self.raw.get().starts_with('[') {
            return Err(self.wrong("an array"));
        }
        let items: Vec<&RawValue> = serde_json::from_str(self.raw.get()).map_err(syntax)?;
        Ok(items.into_iter().map(|raw| Field { name: self.name, raw }).collect())
    }

    /// An array of numbers, each rounded once, from its decimal digits to the nearest float.
    pub(in crate::interchange) fn floats(self) -> Result<Vec<f32>, LineReason> {
        let wrong = || self.wrong("an array of numbers");
        let inner = self.raw.get().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let inner = inner.ok_or_else(wrong)?.trim();
        if inner.is_empty() {
            return Ok(Vec::new());
        }
        // The text is JSON already: what begins like a number between two commas is one.
        let float = |text: &str| {
            let text = text.trim();
            let number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
            let float: f32 = number.then(|| text.parse().ok()).flatten().ok_or_else(wrong)?;
            // Digits beyond the range round to infinity, which no line could say again.
            let too_large = || self.wrong("an array of numbers that 32-bit floats can hold");
            if float.is_finite() { Ok(float) } else { Err(too_large()) }
        };
        inner.split(',').map(float).collect()
    }

    pub(in crate::interchange) fn wrong(self, expected: &'static str) -> LineReason {
        LineReason::WrongType { field: self.name, expected }
    }
}

fn syntax(error: serde_json::Error) -> LineReason {
    LineReason::Json(BadJson::Syntax(error))
}

/// Names and values of an object, in its order.
struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<'de>, M::Error> {
        let mut pairs = Vec::with_capacity(8);
        while let Some((name, value)) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
            pairs.push((name, value));
        }
        Ok(Pairs(pairs))
    }
}
