package natskv_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/race"
	"github.com/slidegate/slidegate/test/workers"
)

// job is the configuration of a process.
type job struct {
	Kind     string // "history" or "race"
	URL      string
	Replicas int
}

// startWorkers starts processes; the i-th connects to url(i) first.
func startWorkers(t *testing.T, n int, kind string, url func(first int) string, replicas int) (all []*workers.Worker) {
	t.Helper()
	for i := range n {
		text := kit.Must(json.Marshal(job{kind, url(i), replicas}))(t)
		all = append(all, workers.Start(t, 1, string(text))...)
	}
	return all
}

// TestWorker is the main function of the other processes.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(text string) (func([]byte) (any, error), error) {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return nil, err
		}
		engine := open(t, j.URL, natskv.Options{Replicas: j.Replicas})
		if j.Kind == "history" {
			st := kit.Must(kvstore.New(engine, kvstore.Options{}))(t)
			return history.Job(st, func(ctx context.Context) error { return alive(ctx, engine) }), nil
		}
		st := newStore(t, engine, nil)
		return race.Job(st), nil
	})
}

// alive returns an error if the engine cannot write.
func alive(ctx context.Context, engine *natskv.Engine) error {
	name := fmt.Sprintf("alive-%d", os.Getpid())
	_, revision, err := engine.Get(ctx, name)
	if err == nil {
		_, err = engine.Swap(ctx, name, nil, revision, time.Minute)
	}
	return err
}

func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	url := natstest.StartNode(t).URL()
	testRace(t, func(int) string { return url }, 1)
}

// testRace sends two hundred concurrent requests from four processes, of which exactly fifty are admitted, every time.
func testRace(t *testing.T, url func(first int) string, replicas int) {
	t.Helper()
	race.Exact(t, startWorkers(t, race.Processes, "race", url, replicas), 28, false)
}

// take requests units, and a slot that no other process holds.
func take(st store.Store, limit *store.Limit, key string, cost int64) (rule.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers := make([]rule.Answer, 1)
	charges := []store.Charge{{Limit: limit, Key: key, Cost: cost}}
	err := st.Apply(ctx, []store.Request{{Op: rule.Take, ID: rule.ID(rand.Uint64()), Charges: charges, Answers: answers}})
	return answers[0], err
}
