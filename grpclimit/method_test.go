package grpclimit_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate/grpclimit"
)

// idle is a server's stream that receives nothing.
type idle struct {
	grpc.ServerStream
	ctx context.Context
}

func (s idle) Context() context.Context     { return s.ctx }
func (s idle) SetTrailer(metadata.MD)       {}
func (s idle) RecvMsg(any) error            { return nil }
func (s idle) SetHeader(metadata.MD) error  { return nil }
func (s idle) SendHeader(metadata.MD) error { return nil }

// gRPC 1.75 serves a stream that is called without the leading slash and passes the name on unchanged: it must make no
// difference to a match or a key.
func TestMethodWithoutLeadingSlash(t *testing.T) {
	twoWay := grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	for name, call := range map[string]func(limits *grpclimit.Interceptors, client *grpclimit.Client, method string) error{
		"a served call": func(limits *grpclimit.Interceptors, _ *grpclimit.Client, method string) error {
			_, err := limits.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
				func(context.Context, any) (any, error) { return nil, nil })
			return err
		},
		"a served stream": func(limits *grpclimit.Interceptors, _ *grpclimit.Client, method string) error {
			return limits.Stream()(nil, idle{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method, IsClientStream: true},
				func(_ any, stream grpc.ServerStream) error { return stream.RecvMsg(nil) })
		},
		"a call by a client": func(_ *grpclimit.Interceptors, client *grpclimit.Client, method string) error {
			return client.Unary()(t.Context(), method, nil, nil, nil,
				func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
		},
		"a stream by a client": func(_ *grpclimit.Interceptors, client *grpclimit.Client, method string) error {
			stream, err := client.Stream()(t.Context(), &twoWay, nil, method,
				func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, sent string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
					if sent != method {
						t.Errorf("%s was sent as %s", method, sent)
					}
					return &wire{ctx: ctx}, nil
				})
			if err != nil {
				return err
			}
			return stream.SendMsg(nil)
		},
	} {
		for _, match := range []string{"", "/p.S/M", "/p.S/*"} {
			messages := grpclimit.Policy{Name: "messages", Match: match, PerMessage: true, Limits: parse("3/1m")}
			for _, policy := range []grpclimit.Policy{{Match: match, Limits: parse("1/1m")}, messages} {
				policy.Key = grpclimit.ByMethod()
				limits, err := grpclimit.New(newLimiter(t, newClock()), grpclimit.Options{Policies: []grpclimit.Policy{policy}})
				if err != nil {
					t.Fatal(err)
				}
				client, err := grpclimit.NewClient(newLimiter(t, newClock()), grpclimit.ClientOptions{Policies: []grpclimit.Policy{policy}})
				if err != nil {
					t.Fatal(err)
				}
				var last error
				for _, method := range []string{"/p.S/M", "p.S/M", "p.S/M", "/p.S/M"} {
					last = call(limits, client, method)
				}
				wantCode(t, name+" with the match "+match, last, codes.ResourceExhausted)
				wantCode(t, name+" without a slash and with the match "+match, call(limits, client, "p.S/M"), codes.ResourceExhausted)
			}
		}
	}
}
