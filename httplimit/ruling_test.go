package httplimit

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// The response to a blocked client contains for how long, in every body; a client that is blocked for good gets 403.
func TestBlockedClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for body, want := range map[Body][2]string{
			BodyProblem: {`"status":429,"detail":"The client is blocked. Try again in 90 seconds.","retry_after":90}`, `"status":403,"detail":"The client is blocked."}`},
			BodyJSON:    {`{"error":"blocked","retry_after":90}`, `{"error":"blocked"}`},
			BodyText:    {"The client is blocked. Try again in 90 seconds.\n", "The client is blocked.\n"},
			BodyNone:    {"", ""},
		} {
			opts := Options{Body: body, Policies: []Policy{{Name: "api", Key: ByHeader("X-User")}}}
			p := newPlay(t, opts, nil, slidegate.MustParseLimit("2/1m"))
			if p.limits.SetRulings("apy") == nil {
				t.Error("rulings of an unknown policy are accepted, want an error")
			}
			for i, end := range []time.Time{time.Now().Add(90 * time.Second), {}} {
				if err := p.limits.SetRulings("api", policy.Ruling{Key: "ann", Refused: true, Until: end}); err != nil {
					t.Fatal(err)
				}
				got := p.do(request("X-User: ann"))
				status, retry := 429, "90"
				if end.IsZero() {
					status, retry = 403, ""
				}
				if got.Code != status || got.Header().Get("Retry-After") != retry || !strings.Contains(got.Body.String(), want[i]) {
					t.Errorf("body %d, until %v: got %d, %v, %q; want %d, Retry-After %q and %q", body, end, got.Code, got.Header(), got.Body, status, retry, want[i])
				}
				if other := p.do(request("X-User: bob")); other.Code != 200 {
					t.Errorf("another client: got %d, want 200", other.Code)
				}
			}
		}
	})
}
