package httplimit

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

// Errors name the package once, and the policy.
func TestErrorsNamePackageOnce(t *testing.T) {
	limiter := testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t), slidegate.PerMinute(1)))(t)
	bad := []slidegate.Limit{{Name: strings.Repeat("n", 3*engine.MaxName), Quota: 1, Window: 60e9}}
	for what, given := range map[string]Policy{
		"glob": {Name: "a", Match: "/api/*"}, "URL": {Name: "a", Match: "https://example.com/"}, "no path": {Name: "a", Match: "GET"},
		"limit": {Name: "a", Limits: []slidegate.Limit{{}}}, "name": {Name: "a", Limits: bad},
		"override": {Name: "a", Overrides: []policy.Override{{Key: "k", Limits: bad}}},
	} {
		_, err := New(limiter, Options{Policies: []Policy{given}})
		if err == nil || !strings.HasPrefix(err.Error(), `httplimit: policy "a": `) || strings.Count(err.Error(), "httplimit: ") != 1 {
			t.Errorf("%s: got error %v, want the package and the policy once", what, err)
		}
	}
	long := slidegate.PerMinute(1)
	long.Name = "ä"
	limiter = testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t), long))(t)
	if _, err := New(limiter, Options{}); err == nil || strings.Count(err.Error(), "httplimit: ") != 1 {
		t.Errorf("the limiter's own limit: got error %v, want the package once", err)
	}
}
