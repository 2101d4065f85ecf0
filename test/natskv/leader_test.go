package natskv_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
)

// testHandover checks that requests wait while the leader hands over to another server. They fail only on a machine so busy that the
// handover takes long.
func testHandover(t *testing.T, cluster *natstest.Cluster) {
	t.Helper()
	engine := open(t, cluster.URL(0), natskv.Options{Replicas: 3})
	conn := natstest.Connect(t, cluster.URL(1))
	js := jetStream(t, cluster.URL(1))
	const rounds = 5
	smooth := 0
	for range rounds {
		var before int
		kit.Eventually(t, "a leader", func() (ok bool) {
			var err error
			before, err = cluster.Leader(js, bucketStream)
			return err == nil
		})
		kit.Must(conn.RequestWithContext(t.Context(), "$JS.API.STREAM.LEADER.STEPDOWN."+bucketStream, nil))(t)
		failures := 0
		kit.Eventually(t, "another leader", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := alive(ctx, engine); err != nil {
				t.Log(err)
				failures++
			}
			now, err := cluster.Leader(js, bucketStream)
			return err == nil && now != before
		})
		if failures == 0 {
			smooth++
		}
	}
	if t.Logf("%d of %d handovers were not noticed", smooth, rounds); smooth == 0 {
		t.Error("requests failed in every handover")
	}
}

// A leader that is isolated does not know that the others have elected a new one, and still answers reads. The engine of a process that
// is connected to it returns nothing older than what was acknowledged to another process.
func TestIsolatedLeaderReturnsNothingStale(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	js := jetStream(t, cluster.URL(0))
	open(t, cluster.URL(0), natskv.Options{Replicas: 3})
	leader := kit.Must(cluster.Leader(js, bucketStream))(t)
	inside := open(t, cluster.Nodes[leader].URL(), natskv.Options{Replicas: 3})
	outside := open(t, cluster.Nodes[(leader+1)%3].URL(), natskv.Options{Replicas: 3})
	old := mustSwap(t, inside, "name", "old", 0, time.Hour)

	cluster.Isolate(leader)
	begun := time.Now()
	var written uint64
	answers := 0
	kit.Eventually(t, "the others to choose a leader", func() bool {
		if _, revision, err := getWithin(t, inside, time.Second); err == nil && revision == old {
			answers++
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		written, err = outside.Swap(ctx, "name", []byte("new"), old, time.Hour)
		return err == nil
	})
	t.Logf("another leader was there after %v", time.Since(begun))
	if answers == 0 {
		t.Error("the leader that was cut off did not answer, so an outdated answer could not be noticed")
	}
	for range 20 {
		if value, revision, err := getWithin(t, inside, 50*time.Millisecond); err == nil && revision < written {
			t.Fatalf("after %q of revision %d was written, %q of revision %d was read", "new", written, value, revision)
		}
	}
	cluster.Rejoin(leader)
	kit.Eventually(t, "the new value where the old one was", func() bool {
		value, revision, err := getWithin(t, inside, time.Second)
		if err == nil && revision < written {
			t.Fatalf("after %q of revision %d was written, %q of revision %d was read", "new", written, value, revision)
		}
		return err == nil && revision == written && string(value) == "new"
	})
}

func getWithin(t *testing.T, e *natskv.Engine, most time.Duration) ([]byte, uint64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	return e.Get(ctx, "name")
}
