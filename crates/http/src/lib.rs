//! The HTTP engine of the data plane: HTTPRoute and GRPCRoute.
