package grpclimit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

func TestRefusalHasExactRetryDelay(t *testing.T) {
	ctx, c := t.Context(), newClock()
	conn := dial(t, newServer(t, newLimiter(t, c, "2/1m sliding-log name=api"), grpclimit.Options{}))
	wantCode(t, "the first", call(ctx, conn, "a"), codes.OK)
	c.Advance(20_000_000)
	wantCode(t, "the second", call(ctx, conn, "b"), codes.OK)
	c.Advance(10_000_001)

	// The first unit is 30.000001s old, so a unit is free again in 29.999999s: 30000 whole milliseconds.
	var trailer metadata.MD
	err := call(ctx, conn, "c", grpc.Trailer(&trailer))
	wantCode(t, "the third", err, codes.ResourceExhausted)
	retry, quota := details(t, err)
	const wait = 30*time.Second - time.Microsecond
	if got := retry.GetRetryDelay().AsDuration(); got != wait {
		t.Errorf("got RetryInfo %v, want %v", got, wait)
	}
	if got, ok := grpclimit.RetryAfter(err); got != wait || !ok {
		t.Errorf("got RetryAfter %v, %v, want %v", got, ok, wait)
	}
	if got := trailer["grpc-retry-pushback-ms"]; len(got) != 1 || got[0] != "30000" {
		t.Errorf("got trailer %q, want 30000", got)
	}
	violations := quota.GetViolations()
	if len(violations) != 1 || violations[0].Subject != "api" ||
		violations[0].Description != "The quota of the limit 2/1m sliding-log is used up." {
		t.Errorf("got violations %v, want one by api: the quota of 2/1m sliding-log is used up", violations)
	}
	if want := `grpclimit: the quota of "api" is used up, try again in 29.999999s`; status.Convert(err).Message() != want {
		t.Errorf("got message %q, want %q", status.Convert(err).Message(), want)
	}

	c.Advance(rule.Micros(wait.Microseconds()) - 1)
	wantCode(t, "a microsecond early", call(ctx, conn, "c"), codes.ResourceExhausted)
	c.Advance(1)
	wantCode(t, "exactly then", call(ctx, conn, "c"), codes.OK)
}

func TestNeverAdmittedHasNoDelay(t *testing.T) {
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "4/1m name=small"), grpclimit.Options{
		Policies: []grpclimit.Policy{{Cost: func(_ context.Context, _ string, message any) int64 {
			return int64(len(message.(*wrapperspb.StringValue).Value))
		}}},
	}))
	var trailer metadata.MD
	err := call(t.Context(), conn, "12345", grpc.Trailer(&trailer))
	wantCode(t, "a cost of 5 of 4", err, codes.ResourceExhausted)
	retry, quota := details(t, err)
	if retry != nil {
		t.Errorf("got RetryInfo %v, want none", retry.RetryDelay)
	}
	if _, ok := grpclimit.RetryAfter(err); ok {
		t.Error("RetryAfter returned true for what can never be admitted, want false")
	}
	if got := quota.GetViolations(); len(got) != 1 || got[0].Description != "The cost is above the quota of the limit 4/1m." {
		t.Errorf("got violations %v, want one: the cost is above the quota of 4/1m", got)
	}
	if got := trailer["grpc-retry-pushback-ms"]; len(got) != 1 || got[0] != "-1" {
		t.Errorf("got trailer %q, want -1", got)
	}
	wantCode(t, "a cost of 4", call(t.Context(), conn, "1234"), codes.OK)
	wantCode(t, "a cost of 0 with nothing left", call(t.Context(), conn, ""), codes.ResourceExhausted)
}

// A client with gRPC's own retries obeys the trailer.
func TestTheTrailerDrivesRetries(t *testing.T) {
	c := newClock()
	seen := new(events)
	opts := grpclimit.Options{OnDecision: func(ctx context.Context, event grpclimit.Event) {
		seen.add(ctx, event)
		if event.Refused {
			c.Advance(60_000_000) // time passes only here
		}
	}}
	conn := dial(t, newServer(t, newLimiter(t, c, "1/1ms sliding-log"), opts), grpc.WithDefaultServiceConfig(`{"methodConfig":
		[{"name":[{"service":"test.Echo"}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"600s","maxBackoff":"600s",
		"backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // the backoff without a trailer is ten minutes
	defer cancel()
	wantCode(t, "the first", call(ctx, conn, "a"), codes.OK)
	wantCode(t, "the second", call(ctx, conn, "b"), codes.OK)
	if got := seen.take(); len(got) != 3 || !got[1].Refused || got[2].Refused {
		t.Errorf("got events %+v, want the second call refused once", got)
	}
}

func TestAddressHasNoPort(t *testing.T) {
	address := newServer(t, newLimiter(t, newClock(), "2/1m"), grpclimit.Options{})
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		if got := status.Code(call(t.Context(), dial(t, address), "a")); got != want { // each on its own port
			t.Errorf("connection %d: got %v, want %v", i, got, want)
		}
	}
}

func TestSeveralPoliciesAllOrNone(t *testing.T) {
	ctx, c, seen := t.Context(), newClock(), new(events)
	conn := dial(t, newServer(t, newLimiter(t, c), grpclimit.Options{
		OnDecision: seen.add,
		Policies: []grpclimit.Policy{
			{Name: "all", Key: grpclimit.Global(), Limits: parse("3/1h sliding-log")},
			{Name: "user", Key: grpclimit.ByMetadata("User"), Limits: parse("1/1m sliding-log name=minute", "9/1h name=hour")},
			{Name: "other", Match: "/test.Other/*", Limits: parse("1/1h")},
		},
	}))
	as := func(user string) context.Context { return metadata.AppendToOutgoingContext(ctx, "user", user) }
	wantCode(t, "ann", call(as("ann"), conn, "a"), codes.OK)
	for range 5 { // refused only for ann: nothing is charged to all
		err := call(as("ann"), conn, "a")
		wantCode(t, "ann again", err, codes.ResourceExhausted)
		if _, quota := details(t, err); len(quota.GetViolations()) != 1 || quota.Violations[0].Subject != "user/minute" {
			t.Fatalf("got violations %v, want user/minute", quota)
		}
	}
	wantCode(t, "bob", call(as("bob"), conn, "a"), codes.OK)
	wantCode(t, "eve", call(as("eve"), conn, "a"), codes.OK)
	err := call(as("ann"), conn, "a") // ann's minute is used up, and so is the hour of all
	wantCode(t, "ann with all used up", err, codes.ResourceExhausted)
	retry, quota := details(t, err)
	if retry.GetRetryDelay().AsDuration() != time.Hour {
		t.Errorf("got RetryInfo %v, want the later of the two: 1h", retry)
	}
	if v := quota.GetViolations(); len(v) != 2 || v[0].Subject != "all" || v[1].Subject != "user/minute" {
		t.Errorf("got violations %v, want all and user/minute", v)
	}
	got := seen.take()
	if len(got) != 13 { // two for each of three admissions, one for each of five refusals by user, and two for the last call
		t.Fatalf("got %d events, want 13", len(got))
	}
	if e := got[2]; e.Policy != "user" || e.Method != say || !e.Refused || e.Decision.LimitName != "user/minute" || e.Shadow || e.Err != nil {
		t.Errorf("the event of a refusal by user: got %+v, want one of %s by user/minute, no shadow, no error", e, say)
	}
	if e := got[11]; e.Policy != "all" || !e.Refused {
		t.Errorf("the event of a refusal by all: got %+v, want the policy all, refused", e)
	}
	if e := got[0]; e.Policy != "all" || e.Refused || !e.Decision.Allowed || e.Decision.Remaining != 2 {
		t.Errorf("the first event of an admission: got %+v, want the policy all with 2 left", e)
	}
	if e := got[1]; e.Policy != "user" || e.Refused || !e.Decision.Allowed || e.Decision.Remaining != 0 {
		t.Errorf("the second event of an admission: got %+v, want the policy user with none left", e)
	}
}

// The deciding policy is named correctly also after one with several limits.
func TestTheLastPolicyDecides(t *testing.T) {
	seen := new(events)
	limits, err := grpclimit.New(newLimiter(t, newClock()), grpclimit.Options{OnDecision: seen.add, Policies: []grpclimit.Policy{
		{Name: "first", Limits: parse("7/1m", "8/1h", "9/24h")},
		{Name: "last", Limits: parse("1/1m")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "the first", direct(t.Context(), limits), codes.OK)
	wantCode(t, "the second", direct(t.Context(), limits), codes.ResourceExhausted)
	got := seen.take()
	if len(got) != 3 {
		t.Fatalf("got events %+v, want one of each policy for the first call, and one of the last for the second", got)
	}
	for i, want := range []string{"first", "last", "last"} {
		if event := got[i]; event.Policy != want || event.Decision.LimitName != want {
			t.Errorf("event %d: got %+v, want the policy and limit %s", i, event, want)
		}
	}
}

func TestShadowNeverRefuses(t *testing.T) {
	seen := new(events)
	conn := dial(t, newServer(t, newLimiter(t, newClock()), grpclimit.Options{
		OnDecision: seen.add,
		Policies: []grpclimit.Policy{
			{Name: "live", Limits: parse("3/1m")},
			{Name: "tried", Limits: parse("1/1m"), Shadow: true},
		},
	}))
	for i, want := range []struct {
		code   codes.Code
		shadow bool // whether the shadow policy would admit
	}{{codes.OK, true}, {codes.OK, false}, {codes.OK, false}, {codes.ResourceExhausted, false}} {
		err := call(t.Context(), conn, "a")
		wantCode(t, "a call", err, want.code)
		got := seen.take()
		if len(got) != 2 || !got[0].Shadow || got[0].Policy != "tried" || got[0].Refused || got[0].Decision.Allowed != want.shadow ||
			got[1].Shadow || got[1].Policy != "live" || got[1].Refused != (want.code != codes.OK) {
			t.Errorf("call %d: got events %+v; want a shadow of tried, allowed %v, not refused, then live, refused %v",
				i, got, want.shadow, want.code != codes.OK)
		}
	}
}

func TestPlanSkipAndCost(t *testing.T) {
	ctx := t.Context()
	field := func(ctx context.Context, name string) string {
		value, _ := grpclimit.KeyOf(grpclimit.ByMetadata(name), ctx, "")
		return value
	}
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "1/1m name=api"), grpclimit.Options{
		Policies: []grpclimit.Policy{{
			Name: "plans",
			Key:  grpclimit.ByMetadata("user"),
			Skip: func(ctx context.Context, method string) bool { return method == say && field(ctx, "probe") == "yes" },
			Plan: func(ctx context.Context, _ string) (policy.Plan, error) {
				if field(ctx, "plan") == "pro" {
					return policy.Limits(parse("4/1m name=api")...), nil
				}
				return policy.Plan{}, nil
			},
			Cost: func(_ context.Context, _ string, message any) int64 {
				return int64(len(message.(*wrapperspb.StringValue).Value))
			},
		}},
	}))
	for i, step := range []struct {
		pairs string
		text  string
		want  codes.Code
	}{
		{"user=ann", "", codes.OK}, // costs nothing
		{"user=ann", "1", codes.OK},
		{"user=ann", "1", codes.ResourceExhausted},
		{"user=ann probe=yes", "1", codes.OK},               // exempt
		{"user=ann", "", codes.ResourceExhausted},           // costs nothing, but nothing is left
		{"user=ann plan=pro", "123", codes.OK},              // 1 of 4 was used before
		{"user=ann plan=pro", "1", codes.ResourceExhausted}, // now 4 of 4
		{"user=bob plan=pro", "1234", codes.OK},
	} {
		as := ctx
		for _, pair := range strings.Fields(step.pairs) {
			name, value, _ := strings.Cut(pair, "=")
			as = metadata.AppendToOutgoingContext(as, name, value)
		}
		if got := status.Code(call(as, conn, step.text)); got != step.want {
			t.Errorf("step %d: got %v, want %v", i, got, step.want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		match   string
		limited bool
	}{
		{"", true},
		{"/test.Echo/Say", true},
		{"/test.Echo/*", true},
		{"/test.Echo/Sa", false},
		{"/test.Echo/Says", false},
		{"/test.Ech/*", false},
		{"/test.EchoTwo/*", false},
	} {
		limits, err := grpclimit.New(newLimiter(t, newClock(), "1/1m"), grpclimit.Options{Policies: []grpclimit.Policy{{Match: c.match}}})
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, "the first", direct(t.Context(), limits), codes.OK)
		if refused := direct(t.Context(), limits) != nil; refused != c.limited {
			t.Errorf("match %q: got Say limited %v, want %v", c.match, refused, c.limited)
		}
	}
}

// direct calls the interceptor without a server.
func direct(ctx context.Context, limits *grpclimit.Interceptors) error {
	_, err := limits.Unary()(ctx, wrapperspb.String("a"), &grpc.UnaryServerInfo{FullMethod: say},
		func(context.Context, any) (any, error) { return nil, nil })
	return err
}

func TestGroupKeepsCountsApart(t *testing.T) {
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "1/1m"), grpclimit.Options{
		Group: func(ctx context.Context, method string) string {
			tenant, _ := grpclimit.KeyOf(grpclimit.ByMetadata("tenant"), ctx, method)
			return method + tenant
		},
	}))
	for i, step := range []struct {
		tenant string
		want   codes.Code
	}{{"x", codes.OK}, {"y", codes.OK}, {"x", codes.ResourceExhausted}} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", step.tenant)
		if got := status.Code(call(ctx, conn, "a")); got != step.want {
			t.Errorf("step %d: got %v, want %v", i, got, step.want)
		}
	}
}

func TestRefusalsContainNoKey(t *testing.T) {
	const secret = "ann@example.org"
	conn := dial(t, newServer(t, newLimiter(t, newClock(), "1/1m"), grpclimit.Options{
		Policies: []grpclimit.Policy{{Key: grpclimit.ByMetadata("user")}},
	}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "user", secret)
	wantCode(t, "the first", call(ctx, conn, "a"), codes.OK)
	var header, trailer metadata.MD
	err := call(ctx, conn, "a", grpc.Header(&header), grpc.Trailer(&trailer))
	wantCode(t, "the second", err, codes.ResourceExhausted)
	wire, failed := proto.Marshal(status.Convert(err).Proto())
	if failed != nil {
		t.Fatal(failed)
	}
	text := string(wire) + err.Error()
	for _, md := range []metadata.MD{header, trailer} {
		for name, values := range md {
			text += name + strings.Join(values, "")
		}
	}
	if strings.Contains(text, secret) {
		t.Errorf("got refusal %q, want it without the key", text)
	}
}
