//! Settings that may be a list or a range: `--subscribers 10,100,1000`, `--subscribers 10..19000`.
//!
//! A scenario is always run with one value of each setting. If the command line gives several, it
//! is run for each value, and for each combination if several settings have several values. Two
//! settings were already lists in the originals, whose every run used all values ([`Listed`]):
//! those are swept by ranges only.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::BenchError;

/// Default number of steps of a range.
pub const DEFAULT_STEPS: usize = 5;
/// A range over at least this factor is divided in equal ratios, a narrower one in equal steps.
const RATIO_FOR_GEOMETRIC: f64 = 10.0;
/// A larger number of runs is treated as a mistake.
const POINTS_MAX: usize = 1_000;

/// A number that a setting can have.
pub trait Number: Copy + PartialEq + FromStr + fmt::Display + Serialize {
    /// The number as a point on an axis.
    fn to_f64(self) -> f64;
    /// The number nearest to a point.
    fn from_f64(value: f64) -> Self;
}

macro_rules! number {
    ($($type:ty),*) => {
        $(impl Number for $type {
            #[allow(clippy::cast_lossless)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn from_f64(value: f64) -> Self {
                value.round() as Self
            }
        })*
    };
}
number!(u16, usize, u64);

impl Number for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(value: f64) -> Self {
        value
    }
}

/// One value, or several to try.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepValues<T> {
    /// These values, in this order; at least one.
    List(Vec<T>),
    /// From one to another, both included.
    Range(T, T),
}

impl<T: Number> SweepValues<T> {
    /// A single value.
    pub fn one(value: T) -> Self {
        Self::List(vec![value])
    }

    /// The value for a run; the first if there are several.
    pub fn get(&self) -> T {
        match self {
            Self::List(values) => values[0],
            Self::Range(from, _) => *from,
        }
    }

    fn points(&self, steps: usize) -> Vec<f64> {
        match self {
            Self::List(values) => values.iter().map(|value| value.to_f64()).collect(),
            Self::Range(from, to) => walk(*from, *to, steps),
        }
    }
}

/// Divides a range into this number of steps, both ends included.
fn walk<T: Number>(from: T, to: T, steps: usize) -> Vec<f64> {
    let (from, to, steps) = (from.to_f64(), to.to_f64(), steps.max(2));
    let geometric = from > 0.0 && to / from >= RATIO_FOR_GEOMETRIC;
    let at = |step: usize| {
        let share = step as f64 / (steps - 1) as f64;
        let value = if geometric {
            from * (to / from).powf(share)
        } else {
            from + (to - from) * share
        };
        T::from_f64(value).to_f64()
    };
    let mut points: Vec<f64> = (0..steps).map(at).collect();
    points.dedup();
    points
}

impl<T: Number> FromStr for SweepValues<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| {
            let digits = text.trim().replace('_', "");
            // Of the texts that are a float, "nan" and "inf" are no setting.
            let number = digits
                .parse()
                .ok()
                .filter(|number: &T| number.to_f64().is_finite());
            number.ok_or_else(|| {
                format!("'{text}' is not a number; write 10, a list 10,100 or a range 10..1000")
            })
        };
        if let Some((from, to)) = text.split_once("..") {
            let (from, to): (T, T) = (parse(from)?, parse(to)?);
            if from.to_f64() >= to.to_f64() {
                return Err("a range goes from the smaller to the larger".into());
            }
            return Ok(Self::Range(from, to));
        }
        text.split(',')
            .map(parse)
            .collect::<Result<_, _>>()
            .map(Self::List)
    }
}

impl<T: Number> Serialize for SweepValues<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::List(values) if values.len() == 1 => values[0].serialize(serializer),
            Self::List(values) => values.serialize(serializer),
            Self::Range(from, to) => format!("{from}..{to}").serialize(serializer),
        }
    }
}

impl<'de, T: Number + Deserialize<'de>> Deserialize<'de> for SweepValues<T> {
    /// The stored form: a number, a list, or the text of a range.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Stored::deserialize(deserializer)? {
            Stored::One(value) => Ok(Self::one(value)),
            Stored::Many(values) if values.is_empty() => Err(D::Error::custom("an empty list")),
            Stored::Many(values) => Ok(Self::List(values)),
            Stored::Range(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stored<T> {
    One(T),
    Many(Vec<T>),
    Range(String),
}

/// Values of which a list belongs to one run, as in the originals; a range is swept.
#[derive(Debug, Clone, PartialEq)]
pub enum Listed<T> {
    /// All values in each run, in this order; at least one.
    Together(Vec<T>),
    /// From one value to another, each with separate runs.
    Range(T, T),
    /// One value of a range.
    OneOfRange(T),
}

impl<T: Number> Listed<T> {
    /// The values of one run.
    pub fn values(&self) -> &[T] {
        match self {
            Self::Together(values) => values,
            Self::Range(one, _) | Self::OneOfRange(one) => std::slice::from_ref(one),
        }
    }

    /// Whether a run has one value of a range, so that its figures need not name it.
    pub const fn is_swept(&self) -> bool {
        !matches!(self, Self::Together(_))
    }
}

impl<T: Number> FromStr for Listed<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text.parse()? {
            SweepValues::List(values) => Self::Together(values),
            SweepValues::Range(from, to) => Self::Range(from, to),
        })
    }
}

impl<T: Number> Serialize for Listed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Together(values) => values.serialize(serializer),
            Self::Range(from, to) => format!("{from}..{to}").serialize(serializer),
            Self::OneOfRange(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Number + Deserialize<'de>> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Stored::deserialize(deserializer)? {
            Stored::One(value) => Ok(Self::OneOfRange(value)),
            Stored::Many(values) if values.is_empty() => Err(D::Error::custom("an empty list")),
            Stored::Many(values) => Ok(Self::Together(values)),
            Stored::Range(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

impl<T: Number> Parameter for Listed<T> {
    fn points(&self, steps: usize) -> Vec<f64> {
        match self {
            Self::Range(from, to) => walk(*from, *to, steps),
            _ => Vec::new(),
        }
    }

    fn fix(&mut self, value: f64) {
        *self = Self::OneOfRange(T::from_f64(value));
    }
}

/// A setting, whatever its type.
pub trait Parameter {
    /// All values to try.
    fn points(&self, steps: usize) -> Vec<f64>;
    /// Sets the setting to one of them.
    fn fix(&mut self, value: f64);
}

impl<T: Number> Parameter for SweepValues<T> {
    fn points(&self, steps: usize) -> Vec<f64> {
        Self::points(self, steps)
    }

    fn fix(&mut self, value: f64) {
        *self = Self::one(T::from_f64(value));
    }
}

impl<T: Number> Parameter for Option<SweepValues<T>> {
    fn points(&self, steps: usize) -> Vec<f64> {
        self.as_ref()
            .map(|swept| swept.points(steps))
            .unwrap_or_default()
    }

    fn fix(&mut self, value: f64) {
        *self = Some(SweepValues::one(T::from_f64(value)));
    }
}

/// Settings of which some may be swept.
pub trait Sweepable: Clone {
    /// The settings that may be swept, by the names of their flags.
    fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)>;
}

/// The values of swept settings in one run, by name; empty if nothing is swept.
pub type Point = BTreeMap<String, f64>;

/// All combinations, each with one value per setting.
pub fn points<A: Sweepable>(arguments: &A, steps: usize) -> Result<Vec<(Point, A)>, BenchError> {
    let mut all = vec![(Point::new(), arguments.clone())];
    let mut template = arguments.clone();
    for (index, (name, parameter)) in template.parameters().into_iter().enumerate() {
        let values = parameter.points(steps);
        if values.len() < 2 {
            continue;
        }
        if all.len() * values.len() > POINTS_MAX {
            return Err(BenchError::Settings(format!(
                "the sweep has more than {POINTS_MAX} points"
            )));
        }
        let with = |(point, arguments): &(Point, A), value: f64| {
            let (mut point, mut arguments) = (point.clone(), arguments.clone());
            point.insert(name.to_owned(), value);
            arguments.parameters()[index].1.fix(value);
            (point, arguments)
        };
        all = all
            .iter()
            .flat_map(|one| {
                values
                    .iter()
                    .map(|&value| with(one, value))
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Settings {
        users: SweepValues<usize>,
        rate: Option<SweepValues<f64>>,
    }

    impl Sweepable for Settings {
        fn parameters(&mut self) -> Vec<(&'static str, &mut dyn Parameter)> {
            vec![("users", &mut self.users), ("rate", &mut self.rate)]
        }
    }

    fn swept<T: Number>(text: &str) -> SweepValues<T> {
        text.parse().expect(text)
    }

    #[test]
    fn wide_ranges_go_by_ratios_narrow_ones_by_steps() {
        assert_eq!(
            swept::<usize>("10..10000").points(4),
            [10.0, 100.0, 1_000.0, 10_000.0]
        );
        assert_eq!(swept::<usize>("10..20").points(3), [10.0, 15.0, 20.0]);
        assert_eq!(swept::<usize>("1..3").points(9), [1.0, 2.0, 3.0]);
        assert_eq!(swept::<f64>("0.5,2").points(9), [0.5, 2.0]);
        for text in ["", "a", "5..5", "9..1", "1,", "-1"] {
            assert!(text.parse::<SweepValues<usize>>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_combination_is_a_point() {
        let one = Settings {
            users: swept("10"),
            rate: None,
        };
        let all = points(&one, 3).expect("points");
        assert_eq!((all.len(), all[0].0.len()), (1, 0));
        let many = Settings {
            users: swept("10,20"),
            rate: Some(swept("1..3")),
        };
        let all = points(&many, 3).expect("points");
        assert_eq!(all.len(), 6);
        let (point, settings) = &all[5];
        assert_eq!((point["users"], point["rate"]), (20.0, 3.0));
        assert_eq!(settings.users.get(), 20);
        assert_eq!(settings.rate.as_ref().map(SweepValues::get), Some(3.0));
        let huge = Settings {
            users: swept("1..10000"),
            rate: None,
        };
        assert!(points(&huge, 5_000).is_err());
    }

    #[test]
    fn a_list_of_the_originals_is_one_run_and_a_range_many() {
        let listed = |text: &str| text.parse::<Listed<usize>>().expect(text);
        let list = listed("317,1337");
        assert_eq!((list.values(), list.is_swept()), (&[317, 1_337][..], false));
        assert!(list.points(9).is_empty());
        let mut range = listed("100..10000");
        assert_eq!(range.points(3), [100.0, 1_000.0, 10_000.0]);
        range.fix(1_000.0);
        assert_eq!((range.values(), range.is_swept()), (&[1_000][..], true));
    }

    #[test]
    fn stored_settings_read_back() {
        for text in ["10", "10,20", "10..1000"] {
            let stored = serde_json::to_string(&swept::<usize>(text)).expect("JSON");
            let read: SweepValues<usize> = serde_json::from_str(&stored).expect(&stored);
            assert_eq!(read, swept(text));
        }
        for listed in [
            Listed::Together(vec![5_u64]),
            Listed::Range(1, 9),
            Listed::OneOfRange(7),
        ] {
            let stored = serde_json::to_string(&listed).expect("JSON");
            assert_eq!(
                serde_json::from_str::<Listed<u64>>(&stored).expect(&stored),
                listed
            );
        }
        assert!(serde_json::from_str::<SweepValues<usize>>("[]").is_err());
    }

    #[test]
    fn settings_are_stored_as_they_were_given() {
        let json = |text: &str| serde_json::to_value(swept::<usize>(text)).expect("JSON");
        assert_eq!(json("10"), 10);
        assert_eq!(json("10,20"), serde_json::json!([10, 20]));
        assert_eq!(json("10..1_000"), "10..1000");
    }
}
