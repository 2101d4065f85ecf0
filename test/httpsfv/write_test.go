package httpsfv

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/rule"
)

// A name can be written if and only if the library can write it, and in the same way.
func TestNamesAreWrittenLikeTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[ -~]{1,30}`), rapid.String(), rapid.SampledFrom([]string{"\\", `"`, "\x1f", "\x7f", "~", " "})).Draw(t, "name")
		if name == "" {
			return // the limit has its text as its name
		}
		quoted, wrong := httpsfv.Marshal(httpsfv.NewItem(name))
		item, err := reply.NewItem(slidegate.Limit{Name: name, Quota: 5, Window: time.Minute})
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%q: %v, want %v", name, err, wrong)
		}
		if err != nil {
			return
		}
		h := http.Header{}
		reply.IETF.Write(h, []*reply.Item{item}, &slidegate.Decision{Allowed: true}, false)
		if got, want := h.Get("RateLimit-Policy"), quoted+";q=5;w=60"; got != want {
			t.Fatalf("%q is written as %s, want %s", name, got, want)
		}
	})
}

// limits draws limits, and the items that they should have in RateLimit-Policy.
func limits(t *rapid.T) (limits []slidegate.Limit, want httpsfv.List) {
	for range rapid.IntRange(1, 3).Draw(t, "limits") {
		limit := slidegate.Limit{
			Name:   rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "name"),
			Quota:  rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 1<<53-1)).Draw(t, "quota"),
			Window: time.Duration(rapid.Int64Range(1, 1e7).Draw(t, "window")) * rapid.SampledFrom([]time.Duration{time.Second, time.Millisecond}).Draw(t, "unit"),
		}
		name := limit.Name
		if name == "" {
			name = limit.String()
		}
		item := httpsfv.NewItem(name)
		item.Params.Add("q", min(limit.Quota, 999_999_999_999_999))
		if limit.Window%time.Second == 0 {
			item.Params.Add("w", int64(limit.Window/time.Second))
		}
		limits, want = append(limits, limit), append(want, item)
	}
	return limits, want
}

func micros(t *rapid.T, label string) rule.Micros {
	return rule.Micros(rapid.OneOf(rapid.Just(int64(rule.Never)), rapid.Int64Range(0, 1e8), rapid.Int64Range(0, 1<<53)).Draw(t, label))
}

// The fields of every decision are as the library writes them.
func TestFieldsAreWrittenLikeTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, policies := limits(t)
		var d slidegate.Decision
		var left httpsfv.List
		for i := range limits {
			a := rule.Answer{
				Allowed: rapid.Bool().Draw(t, "allowed"), Remaining: rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 1<<53-1)).Draw(t, "remaining"),
				ResetAfter: micros(t, "reset"),
			}
			switch after := micros(t, "after"); {
			case !a.Allowed:
				a.RetryAfter = after
			case a.Remaining == 0:
				a.NextAfter = after
			}
			item := httpsfv.NewItem(policies[i].(httpsfv.Item).Value)
			item.Params.Add("r", min(a.Remaining, 999_999_999_999_999))
			wait, known := a.ResetAfter, true
			if !a.Allowed || a.Remaining == 0 {
				wait, known = answering.After(&a), !a.Allowed || a.NextAfter > 0
			}
			if known && wait < 1<<53+1 {
				item.Params.Add("t", int64((wait+1e6-1)/1e6))
			}
			left, d.Answers = append(left, item), append(d.Answers, a)
		}
		if len(limits) == 1 {
			a := d.Answers[0]
			d = slidegate.Decision{Allowed: a.Allowed, Remaining: a.Remaining, RetryAfter: duration(a.RetryAfter), ResetAfter: duration(a.ResetAfter), NextAfter: duration(a.NextAfter)}
		}
		h := http.Header{}
		reply.IETF.Write(h, new(reply.Items).Append(nil, limits), &d, !d.Allowed)
		same(t, "RateLimit-Policy", h, policies)
		same(t, "RateLimit", h, left)
	})
}

func duration(m rule.Micros) time.Duration {
	if m == rule.Never {
		return slidegate.Never
	}
	return time.Duration(m) * time.Microsecond
}

func same(t *rapid.T, name string, h http.Header, list httpsfv.List) {
	t.Helper()
	want, err := httpsfv.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Values(name); len(got) != 1 || got[0] != want {
		t.Fatalf("%s is %q, want %s", name, got, want)
	}
}
