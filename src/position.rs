//! Where and when: frame numbers, segment names, places in the log, times.
//!
//! Plain numbers with names, so that a frame is never taken for an offset. Arithmetic that could leave
//! a type's range is checked and answers `None`. This file knows no bytes and no files.

use std::fmt;
use std::str::FromStr;

/// The number of a commit in the log: 1, 2, 3 …; frame 0 is the empty store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u64);

impl Frame {
    /// The empty store, before the first commit.
    pub const ZERO: Frame = Frame(0);

    /// The frame after this one; `None` at the end of the number range.
    pub fn next(self) -> Option<Frame> {
        self.0.checked_add(1).map(Frame)
    }

    /// The frame before this one; frame 0 stays frame 0.
    pub fn previous(self) -> Frame {
        Frame(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A time: microseconds since the Unix epoch, from 1970 to the end of the year 9999.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// 1970-01-01T00:00:00Z.
    pub const ZERO: Time = Time(0);
    /// 9999-12-30T22:00:00.999999Z, the last moment that RFC 3339 can write in every offset.
    pub const MAX: Time = Time(253_402_207_200_999_999);

    /// A time from microseconds since the Unix epoch; `None` beyond [`Time::MAX`].
    pub fn from_micros(time_us: u64) -> Option<Time> {
        (time_us <= Time::MAX.0).then_some(Time(time_us))
    }

    /// Microseconds since the Unix epoch.
    pub fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds since the Unix epoch, rounded down.
    pub fn as_millis(self) -> i64 {
        i64::try_from(self.0 / 1000).unwrap_or(i64::MAX)
    }

    /// This time moved by `later_us` microseconds, kept inside the range.
    pub fn saturating_add(self, later_us: u64) -> Time {
        Time(self.0.saturating_add(later_us).min(Time::MAX.0))
    }
}

impl fmt::Display for Time {
    /// RFC 3339 in UTC with six digits of the second: `2026-11-30T12:00:00.000000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.0).map(jiff::Timestamp::from_microsecond) {
            Ok(Ok(stamp)) => write!(f, "{stamp:.6}"),
            // Not reachable below `Time::MAX`; a number is still better than a panic.
            _ => write!(f, "@{}us", self.0),
        }
    }
}

/// What kept a text from being a [`Time`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is not a time between 1970 and 9999: write it as RFC 3339, for example 2026-11-30T12:00:00Z"
)]
pub struct BadTime {
    /// The text, cut to 80 characters.
    pub found: String,
}

impl FromStr for Time {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Time, BadTime> {
        let bad = || BadTime { found: text.escape_debug().take(80).collect() };
        let stamp: jiff::Timestamp = text.parse().map_err(|_| bad())?;
        u64::try_from(stamp.as_microsecond()).ok().and_then(Time::from_micros).ok_or_else(bad)
    }
}

/// Which file of the log: the segment that begins with a frame, or one part of a base.
///
/// The order is the order of the log: the parts of a base stand before the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SegmentId {
    /// `FRAME.PART.base`: the state before `FRAME`, part 1, 2, …
    Base {
        /// The first frame that is kept.
        first: Frame,
        /// Counts from 1.
        part: u32,
    },
    /// `FRAME.seg`: consecutive frames, beginning with `FRAME`.
    Segment {
        /// The first frame of the segment.
        first: Frame,
    },
}

impl SegmentId {
    /// The first frame that the file's name states.
    pub fn first(self) -> Frame {
        match self {
            SegmentId::Base { first, .. } | SegmentId::Segment { first } => first,
        }
    }

    /// True for a part of a base.
    pub fn is_base(self) -> bool {
        matches!(self, SegmentId::Base { .. })
    }

    /// The identity that a file name in `log/` states; `None` for any other name.
    pub fn from_file_name(name: &str) -> Option<SegmentId> {
        let (number, rest) = name.split_at_checked(20)?;
        let first = Frame(digits(number)?);
        if rest == ".seg" {
            return Some(SegmentId::Segment { first });
        }
        let part = rest.strip_prefix('.')?.strip_suffix(".base")?;
        let id = SegmentId::Base { first, part: u32::try_from(digits(part)?).ok()? };
        (id.to_string() == name).then_some(id)
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for SegmentId {
    /// The file name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentId::Base { first, part } => write!(f, "{:020}.{part}.base", first.0),
            SegmentId::Segment { first } => write!(f, "{:020}.seg", first.0),
        }
    }
}

/// Where an envelope stands: the ordinal of its file in the opened log, and the byte offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Counts the files of the log as they were opened, from 0; [`Position::PENDING`] is no file.
    pub segment: u32,
    /// Bytes from the beginning of the file.
    pub offset: u32,
}

impl Position {
    /// The ordinal of what is not in the log yet: the writes of a critical section under way.
    pub const PENDING: u32 = u32::MAX;
}

/// One delta's identity: its frame, and its index among the frame's envelopes (the origin not counted).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Last {
    /// Frame 0 says that there is none.
    pub frame: Frame,
    /// Counts from 0.
    pub index: u32,
}

/// All that a fold may know of a delta besides the delta: its identity, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Frame and index.
    pub last: Last,
    /// File and offset of the envelope.
    pub at: Position,
}
