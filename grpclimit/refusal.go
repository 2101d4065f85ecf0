package grpclimit

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// refusal is the response to a call that is not admitted. It names limits and policies, and never contains a key.
type refusal struct {
	status   *status.Status
	pushback string // of the trailer; empty if there is none
	left     metadata.MD
}

// refuse turns a verdict into a refusal.
func refuse(ctx context.Context, v *policy.Decision) *refusal {
	d := &v.Decision
	switch {
	case v.Ended:
		return &refusal{status: status.FromContextError(cmp.Or(ctx.Err(), context.DeadlineExceeded))}
	case v.Mistake:
		return &refusal{status: status.New(codes.Internal, "grpclimit: the policies of this method cannot be decided")}
	case v.Forbidden() && v.By == policy.ByRuling:
		return &refusal{status: status.New(codes.PermissionDenied, "grpclimit: the client is blocked")}
	case v.Forbidden():
		return &refusal{status: status.New(codes.PermissionDenied, "grpclimit: the client is refused access")}
	case v.By == policy.ByRuling:
		return exhaustedRefusal("grpclimit: the client is blocked", d.RetryAfter)
	case d.Flags&rule.FallbackClosed != 0:
		return &refusal{status: status.New(codes.Unavailable, "grpclimit: the rate limit could not be checked")}
	}
	what := fmt.Sprintf("grpclimit: the quota of %q is used up", d.LimitName)
	switch {
	case d.RetryAfter == slidegate.Never:
		what = fmt.Sprintf("grpclimit: the cost is above the quota of %q", d.LimitName)
	case d.Remaining > 0:
		what = fmt.Sprintf("grpclimit: the cost is above what is left of the quota of %q", d.LimitName)
	}
	return exhaustedRefusal(what, d.RetryAfter, &errdetails.QuotaFailure{Violations: violations(v)})
}

// exhaustedRefusal returns a refusal with the reason and the retry delay.
func exhaustedRefusal(what string, retryAfter time.Duration, details ...protoadapt.MessageV1) *refusal {
	r := &refusal{pushback: pushback(retryAfter)}
	if retryAfter == slidegate.Never {
		what += ", and will never be admitted"
	} else {
		what += fmt.Sprintf(", try again in %v", retryAfter)
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	}
	r.status = status.New(codes.ResourceExhausted, what)
	if full, err := r.status.WithDetails(details...); err == nil { // the details are ours, so they can be encoded
		r.status = full
	}
	return r
}

// pushback formats a delay in whole milliseconds, rounded up: a client that obeys it must not come too early.
func pushback(retryAfter time.Duration) string {
	if retryAfter == slidegate.Never {
		return "-1"
	}
	whole := retryAfter / time.Millisecond
	if retryAfter%time.Millisecond > 0 {
		whole++
	}
	return strconv.FormatInt(int64(whole), 10)
}

// violations returns one violation per limit that refused.
func violations(v *policy.Decision) []*errdetails.QuotaFailure_Violation {
	d := &v.Decision
	if len(d.Answers) == 0 {
		return []*errdetails.QuotaFailure_Violation{violation(v.Limits[0], d.RetryAfter == slidegate.Never, d.Remaining)}
	}
	var found []*errdetails.QuotaFailure_Violation
	for i, limit := range v.Limits {
		if !d.Answers[i].Allowed {
			found = append(found, violation(limit, d.Answers[i].RetryAfter == rule.Never, d.Answers[i].Remaining))
		}
	}
	return found
}

// violation describes a limit that refused. Its subject is the limit's name, or its text if it has none.
func violation(limit slidegate.Limit, never bool, left int64) *errdetails.QuotaFailure_Violation {
	subject := limit.Name
	limit.Name = ""
	text := limit.String()
	if subject == "" {
		subject = text
	}
	description := "The quota of the limit " + text + " is used up."
	switch {
	case never:
		description = "The cost is above the quota of the limit " + text + "."
	case left > 0:
		description = "The cost is above what is left of the limit " + text + "."
	}
	return &errdetails.QuotaFailure_Violation{Subject: subject, Description: description}
}

// RetryAfter returns how long the server asked to wait, if err is the error of a call that was refused with
// RESOURCE_EXHAUSTED and a RetryInfo. Refusals by this package's own client interceptors have one too.
func RetryAfter(err error) (time.Duration, bool) {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().CheckValid() == nil {
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}
