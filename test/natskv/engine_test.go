package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
)

func jetStream(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	return kit.Must(jetstream.New(natstest.Connect(t, url)))(t)
}

func mustSwap(t testing.TB, e *natskv.Engine, name, value string, revision uint64, keep time.Duration) uint64 {
	t.Helper()
	return kit.Must(e.Swap(t.Context(), name, []byte(value), revision, keep))(t)
}

func TestSwap(t *testing.T) {
	t.Parallel()
	engine := open(t, natstest.Start(t), natskv.Options{Memory: true})
	conflict := func(revision uint64) {
		t.Helper()
		if _, err := engine.Swap(t.Context(), "name", []byte("no"), revision, time.Minute); !errors.Is(err, kvstore.ErrOutdated) {
			t.Errorf("a swap of revision %d returned %v, want a conflict", revision, err)
		}
	}
	conflict(7)
	first := mustSwap(t, engine, "name", "one", 0, time.Minute)
	conflict(0)
	second := mustSwap(t, engine, "name", "two", first, time.Minute)
	conflict(first)
	value, revision, err := engine.Get(t.Context(), "name")
	if string(value) != "two" || revision != second || err != nil {
		t.Errorf("got %q of revision %d, %v; want two of revision %d", value, revision, err, second)
	}
	if value, revision, err = engine.Get(t.Context(), "other"); value != nil || revision != 0 || err != nil {
		t.Errorf("got %q of revision %d, %v; want nothing", value, revision, err)
	}
}

// Entries that are to be kept for centuries outlive one with a short time. The server would remove them at once if it added their time
// to its own in 64-bit nanoseconds.
func TestEntriesOutliveCenturies(t *testing.T) {
	t.Parallel()
	engine := open(t, natstest.Start(t), natskv.Options{Memory: true})
	keeps := map[string]time.Duration{"235": 235 * year, "250": 250 * year, "longest": 1<<63 - 1}
	for name, keep := range keeps {
		mustSwap(t, engine, name, name, 0, keep)
	}
	mustSwap(t, engine, "short", "short", 0, time.Second)
	kit.Eventually(t, "the short entry to be gone", func() bool {
		_, revision, err := engine.Get(t.Context(), "short")
		return err == nil && revision == 0
	})
	for name := range keeps {
		if value, _, err := engine.Get(t.Context(), name); string(value) != name || err != nil {
			t.Errorf("%s: got %q, %v after a second", name, value, err)
		}
	}
}

const year = 365 * 24 * time.Hour

// The server forgets an entry when its time is over, counted from the last swap, and leaves no marker. Then it can be created again.
func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t)
	engine := open(t, url, natskv.Options{})
	stream := kit.Must(jetStream(t, url).Stream(t.Context(), bucketStream))(t)
	begun := time.Now()
	created := mustSwap(t, engine, "renewed", "one", 0, 0) // kept for a second, the minimum
	mustSwap(t, engine, "short", "one", 0, time.Millisecond)
	renewed := mustSwap(t, engine, "renewed", "two", created, time.Hour)
	mustSwap(t, engine, "year", "one", 0, 400*24*time.Hour)
	kit.Eventually(t, "the short entry to be gone", func() bool {
		_, revision, err := engine.Get(t.Context(), "short")
		return err == nil && revision == 0
	})
	if lived := time.Since(begun); lived < time.Second {
		t.Errorf("the short entry lived for %v, want at least a second", lived)
	}
	if _, err := stream.GetLastMsgForSubject(t.Context(), "$KV.slidegate.short"); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("an expired entry: got %v, want ErrMsgNotFound", err)
	}
	if value, revision, err := engine.Get(t.Context(), "renewed"); string(value) != "two" || revision != renewed || err != nil {
		t.Errorf("got %q of revision %d, %v; want the renewed entry", value, revision, err)
	}
	mustSwap(t, engine, "short", "again", 0, time.Minute)
	info := kit.Must(stream.Info(t.Context()))(t)
	if info.State.Msgs != 4 { // and the message by which the clock was read
		t.Errorf("the stream has %d messages, want 4", info.State.Msgs)
	}
}

// A full bucket rejects new keys with an error; no limit is forgotten. Requests for existing keys are decided as before.
func TestFullBucketIsAnError(t *testing.T) {
	t.Parallel()
	engine := open(t, natstest.Start(t), natskv.Options{MaxBytes: 16 << 10})
	st := newStore(t, engine, nil)
	limit := kit.Must(adapter.Bind("full", slidegate.Limit{Name: "l", Quota: 2, Window: time.Hour, Anchor: slidegate.AnchorFirst}))(t)
	var err error
	keys := 0
	for ; err == nil && keys < 10_000; keys++ {
		_, err = take(st, limit, fmt.Sprintf("key-%d", keys), 1)
	}
	if err == nil || !strings.Contains(err.Error(), "is full") || errors.Is(err, kvstore.ErrOutdated) {
		t.Fatalf("after %d keys the error is %v, want that the bucket is full", keys, err)
	}
	for _, want := range []bool{true, false} {
		if a := kit.Must(take(st, limit, "key-0", 1))(t); a.Allowed != want {
			t.Errorf("with a full bucket the first key got %+v, want allowed to be %v", a, want)
		}
	}
}

// A bucket that another program created is used only if it keeps entries for as long as requested, and acknowledges writes after
// storing them.
func TestOpenRejectsUnsuitableBuckets(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t)
	js := jetStream(t, url)
	conn := natstest.Connect(t, url)
	good := jetstream.StreamConfig{MaxMsgsPerSubject: 1, AllowMsgTTL: true, Discard: jetstream.DiscardNew, AllowRollup: true}
	for i, test := range []struct {
		want   string
		change func(*jetstream.StreamConfig)
		opts   natskv.Options
	}{
		{"", func(*jetstream.StreamConfig) {}, natskv.Options{}},
		{"", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, natskv.Options{Memory: true}},
		{"set Memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, natskv.Options{}},
		{"1 replicas, and 3 are required", func(*jetstream.StreamConfig) {}, natskv.Options{Replicas: 3}},
		{"set history to 1", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, natskv.Options{}},
		{"set allow_msg_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, natskv.Options{}},
		{"clear allow_direct", func(c *jetstream.StreamConfig) { c.AllowDirect = true }, natskv.Options{}},
		{"set max_age to 0", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, natskv.Options{}},
		{"set discard to new", func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 }, natskv.Options{}},
		{"clear no_ack", func(c *jetstream.StreamConfig) { c.NoAck = true }, natskv.Options{}},
		{"set retention to limits", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, natskv.Options{}},
		{"has the subjects", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "other") }, natskv.Options{}},
	} {
		config := good
		test.opts.Bucket = fmt.Sprintf("bucket-%d", i)
		config.Name, config.Subjects = "KV_"+test.opts.Bucket, []string{"$KV." + test.opts.Bucket + ".>"}
		test.change(&config)
		kit.Must(js.CreateStream(t.Context(), config))(t)
		checkOpen(t, test.want, func() (*natskv.Engine, error) { return natskv.New(t.Context(), conn, test.opts) })
	}
	for want, opts := range map[string]natskv.Options{
		`bucket: "a b" is invalid; use letters`: {Bucket: "a b"},
		"replicas: must be 1 to 5":              {Replicas: 6},
		"max bytes: must not be":                {MaxBytes: -1},
		"replicas > 1 not supported":            {Bucket: "three", Replicas: 3},
	} {
		checkOpen(t, want, func() (*natskv.Engine, error) { return natskv.New(t.Context(), conn, opts) })
	}
	checkOpen(t, "conn: must not be nil", func() (*natskv.Engine, error) { return natskv.New(t.Context(), nil, natskv.Options{}) })
}

// checkOpen fails the test unless opening a bucket fails with the wanted error.
func checkOpen(t *testing.T, want string, open func() (*natskv.Engine, error)) {
	t.Helper()
	engine, err := open()
	if err == nil {
		engine.Close()
	}
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "natskv: ")) {
		t.Errorf("opening returned %v, want an error about %q", err, want)
	}
}

// A server that is killed and started again has everything that was swapped in, and the engine reconnects. In the meantime, calls fail
// immediately with an error about the connection.
func TestKilledServerKeepsSwaps(t *testing.T) {
	t.Parallel()
	node := natstest.StartNode(t)
	engine := open(t, node.URL(), natskv.Options{})
	var revisions []uint64
	for i := range 50 {
		revisions = append(revisions, mustSwap(t, engine, fmt.Sprint("name-", i), "value", 0, time.Hour))
	}
	node.Kill()
	kit.Eventually(t, "an error without waiting", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a request that was in flight when the server died gets no answer
		defer cancel()
		_, _, err := engine.Get(ctx, "name-0")
		return err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "not connected")
	})
	node.Restart()
	kit.Eventually(t, "the server to answer", func() bool { return alive(t.Context(), engine) == nil })
	for i, want := range revisions {
		if value, revision, err := engine.Get(t.Context(), fmt.Sprint("name-", i)); string(value) != "value" || revision != want || err != nil {
			t.Errorf("entry %d is %q of revision %d, %v; want revision %d", i, value, revision, err, want)
		}
	}
}

// A bucket that is deleted is created again, empty.
func TestDeletedBucketIsRecreated(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t)
	engine := open(t, url, natskv.Options{})
	mustSwap(t, engine, "name", "value", 0, time.Hour)
	if err := jetStream(t, url).DeleteStream(t.Context(), bucketStream); err != nil {
		t.Fatal(err)
	}
	if _, _, err := engine.Get(t.Context(), "name"); err == nil {
		t.Error("without a bucket there was an answer")
	}
	kit.Eventually(t, "a new bucket", func() bool {
		value, revision, err := engine.Get(t.Context(), "name")
		return value == nil && revision == 0 && err == nil
	})
}
