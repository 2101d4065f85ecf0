package redisstore_test

import (
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
	"github.com/slidegate/slidegate/test/redistest"
)

// The permissions that docs/redis.md lists are all that a user needs.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "user app on >word "+documentedRights(t)+" +info")
	for by, s := range clientsOf(t, server, "app") {
		for _, limit := range porttest.Kinds() {
			charge := store.Charge{Limit: bind(t, "rights", limit), Key: by, Cost: 1}
			for _, op := range []rule.Op{rule.Take, rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.Reset} {
				if _, err := tryApply(context.Background(), s, op, charge); err != nil {
					t.Errorf("%s, %s, %v: %v", by, limit.Name, op, err)
				}
			}
		}
		checkRights(t, by, s)
		if _, err := s.Warnings(context.Background()); err != nil {
			t.Errorf("%s: %v", by, err)
		}
	}
}

// documentedRights returns the permissions that docs/redis.md lists.
func documentedRights(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("`(~slidegate:[^`]*)`").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/redis.md lists no permissions")
	}
	return string(found[1])
}

// checkRights sends requests that need further permissions: long logs, settlements of generations that are
// dropped later, slots, calendars.
func checkRights(t *testing.T, by string, s *redisstore.Store) {
	t.Helper()
	kinds := allKinds()
	kinds["short"] = rule.Limit{Algorithm: rule.SlidingLog, Quota: 1_000, Window: rule.Micros(1_000)}
	for name, l := range kinds {
		limit := bindRule(t, "rights-"+by, name, l)
		for i, op := range []rule.Op{rule.Take, rule.Renew, rule.Settle, rule.Settle, rule.Charge, rule.Take} {
			cost := int64(1)
			if l.Quota >= 600 && l.Algorithm == rule.SlidingLog {
				cost = 300
			}
			if err := s.Apply(context.Background(), []store.Request{request(op, limit, "key", rule.ID(i%2+1), cost)}); err != nil {
				t.Errorf("%s, %s, %v: %v", by, name, op, err)
			}
		}
	}
	dropped := bindRule(t, "rights-"+by, "dropped", rule.Limit{Algorithm: rule.SlidingLog, Quota: 1, Window: rule.Micros(1_000)})
	for i := range 3 * dropped.Rule().Settlements() { // full generations are dropped when they are older than a millisecond
		if err := s.Apply(context.Background(), []store.Request{settleOf(dropped, "key", rule.ID(i+1), 1, 0, 1)}); err != nil {
			t.Fatalf("%s, settlement %d: %v", by, i, err)
		}
	}
}

// Without permissions for hashes and appending, everything works except settling.
func TestRightsWithoutHashes(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "user app on >word ~slidegate:* +evalsha +eval +time +get +set +mget +setrange +del +pexpire")
	for by, s := range clientsOf(t, server, "app") {
		for name, l := range allKinds() {
			limit := bindRule(t, "rights-"+by, name, l)
			cost := max(1, l.Quota/2)
			if l.Algorithm == rule.InFlight {
				cost = 1
			}
			for _, op := range []rule.Op{rule.Take, rule.TakeUpTo, rule.Charge, rule.Take, rule.Peek, rule.Renew, rule.GiveBack, rule.Settle, rule.Reset} {
				err := s.Apply(context.Background(), []store.Request{request(op, limit, "key", 1, cost)})
				if (err != nil) != (op == rule.Settle && l.Algorithm != rule.InFlight) {
					t.Errorf("%s, %s, %v: %v", by, name, op, err)
				}
			}
		}
	}
}
