// Package grpclimit limits gRPC calls. On the server its interceptors find out who calls, decide by a slidegate.Limiter,
// and refuse with RESOURCE_EXHAUSTED and a retry delay that is true. On the client they keep to a limit of their own and to
// the retry delays that servers answer.
//
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//	// ...
//	limits, err := grpclimit.New(limiter, grpclimit.Options{})
//	// ...
//	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary()), grpc.StreamInterceptor(limits.Stream()))
package grpclimit
