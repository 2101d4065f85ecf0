package grpclimit_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

// A method is written with its full name, since no call has another key.
func TestMethodsAreWrittenInFull(t *testing.T) {
	both := grpclimit.AllOf(grpclimit.ByMetadata("x-user"), grpclimit.ByMethod())
	for _, test := range []struct {
		key  grpclimit.Key
		text string
		ok   bool
	}{
		{grpclimit.ByMethod(), "/shop.Cart/Add", true},
		{grpclimit.ByMethod(), "*/Add", true},
		{grpclimit.ByMethod(), "shop.Cart/Add", false},
		{both, "3:ann14:/shop.Cart/Add", true},
		{both, "3:ann3:Add", false},
	} {
		limiter, err := slidegate.New(memstore.NewDefault(), slidegate.PerMinute(1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = grpclimit.New(limiter, grpclimit.Options{Policies: []grpclimit.Policy{{Key: test.key, Block: policy.List{Keys: []string{test.text}}}}})
		if (err == nil) != test.ok || !test.ok && !strings.Contains(err.Error(), "/package.Service/Method") {
			t.Errorf("%s: got %v, want it accepted: %t", test.text, err, test.ok)
		}
	}
}
