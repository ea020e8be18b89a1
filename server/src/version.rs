//! The version of Redis that Tarn is compatible with.

/// The version of Redis whose replies the server gives.
pub const REDIS_VERSION: &str = "7.0.15";
