// Package grpclimit limits gRPC calls. Its server interceptors identify the client, decide by a slidegate.Limiter, and
// refuse with RESOURCE_EXHAUSTED and an exact retry delay. Its client interceptors obey their own limits and the retry
// delays that servers return.
//
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//	// ...
//	limits, err := grpclimit.New(limiter, grpclimit.Options{})
//	// ...
//	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary()), grpc.StreamInterceptor(limits.Stream()))
package grpclimit
