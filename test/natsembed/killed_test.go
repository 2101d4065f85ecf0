// Package natsembed_test kills processes that embed a NATS server.
package natsembed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore/natsembed"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/workers"
)

// entry is an entry for a process to swap in.
type entry struct {
	Name     string
	Revision uint64 // of the current entry
}

// TestWorker is the main function of the other processes: it runs a server in the folder that the job names, and swaps entries.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(dir string) (func([]byte) (any, error), error) {
		server := startAfter(t, dir)
		t.Cleanup(server.Close)
		conn, err := server.Connect()
		if err != nil {
			return nil, err
		}
		t.Cleanup(conn.Close)
		engine, err := natskv.New(context.Background(), conn, natskv.Options{})
		if err != nil {
			return nil, err
		}
		t.Cleanup(engine.Close)
		return func(order []byte) (any, error) {
			var e entry
			if err := json.Unmarshal(order, &e); err != nil {
				return nil, err
			}
			return engine.Swap(context.Background(), e.Name, []byte("value"), e.Revision, time.Hour)
		}, nil
	})
}

// A process that is killed right after a swap was acknowledged has lost nothing, and another one can use its folder immediately.
func TestKilledProcessLosesNoSwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const entries, rounds = 20, 3
	revisions := make([]uint64, entries)
	for range rounds {
		w := workers.Start(t, 1, dir)
		for i := range revisions {
			w[0].Send(t, entry{fmt.Sprint("name-", i), revisions[i]})
			revisions[i] = workers.ReceiveAll[uint64](t, w)[0]
		}
		w[0].Kill()
	}
	server := startAfter(t, dir)
	defer server.Close()
	conn := kit.Must(server.Connect())(t)
	defer conn.Close()
	engine := kit.Must(natskv.New(t.Context(), conn, natskv.Options{}))(t)
	defer engine.Close()
	for i, want := range revisions {
		if value, revision, err := engine.Get(t.Context(), fmt.Sprint("name-", i)); string(value) != "value" || revision != want || err != nil {
			t.Errorf("entry %d is %q of revision %d, %v; want revision %d", i, value, revision, err, want)
		}
	}
}

// startAfter starts a server in a folder whose previous user may not have ended yet.
func startAfter(t *testing.T, dir string) (server *natsembed.Server) {
	t.Helper()
	if err := kit.Retry(nil, func() (err error) { server, err = natsembed.Start(natsembed.Options{Dir: dir}); return err }); err != nil {
		t.Fatal(err)
	}
	return server
}
