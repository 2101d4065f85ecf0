package grpclimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// The fields that tell what is left, as the RateLimit header fields of draft-ietf-httpapi-ratelimit-headers-11 do.
const (
	leftField   = "ratelimit"
	policyField = "ratelimit-policy"
)

// items is what metadata tells of a set of limits.
type items struct {
	names  []string // quoted
	policy string   // the value of policyField
}

// prepare makes limits ready to be told about.
func prepare(limits []slidegate.Limit) (any, error) {
	made := &items{}
	for i, limit := range limits {
		name := limit.Name
		if name == "" {
			name = limit.String()
		}
		if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }) {
			return nil, fmt.Errorf("the name %q cannot stand in metadata: use printable ASCII", name)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		made.names = append(made.names, quoted)
		if i > 0 {
			made.policy += ", "
		}
		made.policy += quoted + ";q=" + strconv.FormatInt(limit.Quota, 10)
		if limit.Window >= time.Second && limit.Window%time.Second == 0 {
			made.policy += ";w=" + strconv.FormatInt(int64(limit.Window/time.Second), 10)
		}
	}
	return made, nil
}

// remaining returns the metadata that tells what is left after a decision, or nil if no limit made it or nobody asked for
// it.
func remaining(v *policy.Verdict) metadata.MD {
	made, asked := v.Note().(*items)
	if !asked || v.Shadow || v.Ended() || v.Mistake() || v.Decision.Flags&(rule.FallbackOpen|rule.FallbackClosed) != 0 {
		return nil
	}
	left := make([]string, len(made.names))
	for i, name := range made.names {
		left[i] = item(name, &v.Decision, i)
	}
	return metadata.MD{leftField: {strings.Join(left, ", ")}, policyField: {made.policy}}
}

// item tells of the limit at one place. How long to wait is left out if nothing comes of waiting, and after an admission
// that took the last unit: some comes back long before all is free.
func item(name string, d *slidegate.Decision, place int) string {
	a := rule.Answer{Allowed: d.Allowed, Remaining: d.Remaining, RetryAfter: d.RetryAfter.Microseconds(), ResetAfter: d.ResetAfter.Microseconds()}
	if d.Answers != nil {
		a = d.Answers[place]
	} else if d.Never() {
		a.RetryAfter = rule.Never
	}
	text := name + ";r=" + strconv.FormatInt(a.Remaining, 10)
	wait := a.ResetAfter
	switch {
	case !a.Allowed:
		wait = a.RetryAfter
	case a.Remaining == 0:
		wait = rule.Never
	}
	if wait == rule.Never {
		return text
	}
	const second = int64(time.Second / time.Microsecond)
	return text + ";t=" + strconv.FormatInt(int64(wait)/second+min(1, int64(wait)%second), 10)
}
