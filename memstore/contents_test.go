package memstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// What Inspect says of a folder is what the store in it has, before and after a checkpoint, and after it was closed.
func TestInspectFolder(t *testing.T) {
	dir := t.TempDir()
	st := testkit.Must(memstore.Open(dir, memstore.Options{}))(t)
	defer func() { check(t, st.Close()) }()
	const keys = 3000
	limiter := newLimiter(t, st, sliding(5, time.Hour))
	began := time.Now().Add(-time.Second)
	for i := range keys {
		allow(t, limiter, fmt.Sprint(i), 1)
	}
	decide(t, st, rule.Settle, 7, store.Charge{Limit: everyLimit(t, 5)[0], Key: "key", Cost: 1})
	testkit.Must(st.SwapDocument(t.Context(), "rulings", []byte("text"), 0))(t)
	look := func(requests int) memstore.Contents {
		t.Helper()
		c := testkit.Must(memstore.Inspect(dir))(t)
		if c.Keys < keys || c.Settlements != 1 || len(c.Limits) != 2 || c.Documents["rulings"] != 4 || c.Skipped != 0 || c.Requests != requests {
			t.Errorf("got %+v, want %d requests, %d keys of 2 limits, a settlement and a document", c, requests, keys)
		}
		if d, _ := st.Durability(); c.Process == "" != c.Closed || c.Files == 0 || !c.Closed && c.Bytes > d.Bytes {
			t.Errorf("got %+v, of %+v", c, d)
		}
		return c
	}
	if c := look(keys + 1); !c.Checkpoint.IsZero() || c.Until.Before(began) || c.Until.After(time.Now()) || c.Process != fmt.Sprint("process ", os.Getpid()) {
		t.Errorf("got %+v", c)
	}
	check(t, st.Checkpoint())
	if c := look(0); c.Checkpoint.Before(began) || c.Checkpoint.After(time.Now()) || !c.Until.IsZero() {
		t.Errorf("after a checkpoint: got %+v", c)
	}
	allow(t, limiter, "0", 1)
	check(t, st.Close())
	if d, _ := st.Durability(); d.Err == nil || !strings.Contains(d.Err.Error(), "closed") {
		t.Errorf("got %v after Close, want that the store is closed", d.Err)
	}
	if c := look(1); !c.Closed || c.PowerLoss {
		t.Errorf("closed: got %+v", c)
	}
}

// A folder can be inspected at any time, and the store in it does not notice.
func TestInspectFolderInUse(t *testing.T) {
	dir := t.TempDir()
	st := testkit.Must(memstore.Open(dir, memstore.Options{}))(t)
	defer func() { check(t, st.Close()) }()
	limiter := newLimiter(t, st, sliding(1_000_000, time.Hour))
	done := make(chan struct{})
	var callers sync.WaitGroup
	for c := range 4 {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if d := allow(t, limiter, fmt.Sprint(c, i%500), 1); !d.Allowed {
					t.Errorf("got %+v while the folder is inspected", d)
					return
				}
			}
		})
	}
	callers.Go(func() {
		for range 10 {
			if err := st.Checkpoint(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 8 {
		if c, err := memstore.Inspect(dir); err != nil || c.Process == "" || c.Closed || c.PowerLoss {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	close(done)
	callers.Wait()
	if d, _ := st.Durability(); d.Err != nil || d.Failures > 0 {
		t.Errorf("the store noticed: got %+v", d)
	}
}

// What is not a folder of a store, or a damaged one, is an error. A folder that cannot be written can be inspected.
func TestInspectOtherFolders(t *testing.T) {
	dir := t.TempDir()
	if _, err := memstore.Inspect(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for no folder", err)
	}
	if _, err := memstore.Inspect(dir); err == nil {
		t.Error("got no error for an empty folder")
	}
	st := testkit.Must(memstore.Open(dir, memstore.Options{}))(t)
	allow(t, newLimiter(t, st, sliding(5, time.Hour)), "key", 1)
	check(t, st.Close())
	logs := testkit.Must(filepath.Glob(filepath.Join(dir, "*.log")))(t)
	text := testkit.Must(os.ReadFile(logs[0]))(t)
	check(t, os.Chmod(logs[0], 0o400))
	if c, err := memstore.Inspect(dir); err != nil || c.Keys != 1 {
		t.Errorf("read only: got %+v, %v", c, err)
	}
	check(t, os.Chmod(logs[0], 0o600))
	text[4096+9] ^= 1
	check(t, os.WriteFile(logs[0], text, 0o600))
	if c, err := memstore.Inspect(dir); !errors.Is(err, memstore.ErrDamaged) {
		t.Errorf("damaged: got %+v, %v", c, err)
	}
}
