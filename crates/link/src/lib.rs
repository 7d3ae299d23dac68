//! The way of plans, endpoints and keys from a controller to its data planes.
