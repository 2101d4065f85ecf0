package redisstore_test

import (
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
	"github.com/slidegate/slidegate/test/redistest"
)

// The rights that docs/redis.md lists are all that a user needs.
func TestRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("`(~slidegate:[^`]*)`").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/redis.md lists no rights")
	}
	server := redistest.Server(t, "user app on >word "+string(found[1])+" +info")
	for by, s := range clientsOf(t, server, "app") {
		for _, limit := range porttest.Kinds() {
			charge := store.Charge{Limit: bind(t, "rights", limit), Key: by, Cost: 1}
			for _, op := range []rule.Op{rule.Take, rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.Reset} {
				if _, err := try(context.Background(), s, op, charge); err != nil {
					t.Errorf("%s, %s, %v: %v", by, limit.Name, op, err)
				}
			}
		}
		if _, err := s.Warnings(context.Background()); err != nil {
			t.Errorf("%s: %v", by, err)
		}
	}
}
