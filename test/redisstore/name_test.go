package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// Names on the server are the recorded ones, and their slots are those that the server computes. The store's own tests
// compare its names and slots with the same file.
func TestSlotsAndNamesOnServer(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("../../redisstore/testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	nodes := redistest.Cluster(t)
	client, node := nodes.Client(t), nodes[0].Options()
	node.ForceSingleClient = true
	single := redistest.Client(t, node)
	s := newStore(t, client, redisstore.Options{Prefix: "own"})
	limit := bind(t, "api", slidegate.Limit{Name: "login", Quota: 1, Window: time.Hour, Algorithm: slidegate.SlidingWindow})
	lines := strings.Split(strings.TrimSpace(string(recorded)), "\n")
	for _, line := range lines {
		var group, key, name string
		var slot int64
		if _, err := fmt.Sscanf(line, "%q %q %q %d", &group, &key, &name, &slot); err != nil {
			t.Fatalf("invalid line %s: %v", line, err)
		}
		if is := number(t, single, "CLUSTER", "KEYSLOT", name); is != slot {
			t.Errorf("the slot of %q is %d, want %d", name, is, slot)
		}
		request := store.Request{
			Group: group, Charges: []store.Charge{{Limit: limit, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1),
		}
		if err := s.Apply(context.Background(), []store.Request{request}); err != nil {
			t.Fatal(err)
		}
		found := client.Do(context.Background(), client.B().Exists().Key(name).Build())
		if n, err := found.AsInt64(); n != 1 || err != nil {
			t.Errorf("no key %q: %v", name, err)
		}
	}
	if len(lines) < 7 {
		t.Errorf("got only %d recorded names", len(lines))
	}
}
