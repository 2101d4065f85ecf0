package replay

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that the temporary file returns what was written, and that it is removed afterwards.

// ownTemp makes the test use a separate directory for temporary files, and returns it.
func ownTemp(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	return folder
}

func checkNothingLeft(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 0 {
		t.Errorf("got temporary files %v, %v, want none", left, err)
	}
}

func TestSpoolReturnsWhatWasWritten(t *testing.T) {
	folder := ownTemp(t)
	property(t, 150, func(t *rapid.T) {
		s, err := newSpool()
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		var want []request
		for range rapid.IntRange(0, 4).Draw(t, "batches") {
			var batch []request
			for range rapid.IntRange(0, 40).Draw(t, "requests") {
				batch = append(batch, request{
					at:    rule.Micros(rapid.Int64Range(1, int64(rule.MaxNow)).Draw(t, "at")),
					cost:  rapid.Int64Range(0, rule.MaxQuota).Draw(t, "cost"),
					key:   rapid.Uint32().Draw(t, "key"),
					group: rapid.Uint32().Draw(t, "group"),
				})
			}
			if err := s.write(batch); err != nil {
				t.Fatal(err)
			}
			want = append(want, batch...)
		}
		read := 0
		err = s.each(func(q *request) error {
			if read == len(want) || !reflect.DeepEqual(*q, want[read]) {
				t.Fatalf("at place %d of %d: got %+v, want %+v", read, len(want), *q, want[min(read, len(want)-1)])
			}
			read++
			return nil
		})
		if err != nil || read != len(want) {
			t.Fatalf("got %d of %d requests, %v", read, len(want), err)
		}
	})
	checkNothingLeft(t, folder)
}

func TestSpoolErrors(t *testing.T) {
	folder := ownTemp(t)
	enough := errors.New("enough")
	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write([]request{{at: origin, cost: 1 << 40, key: 1}, {at: origin, cost: 1, key: 2}}); err != nil {
		t.Fatal(err)
	}
	read := 0
	if err := s.each(func(*request) error { read++; return enough }); err != enough || read != 1 {
		t.Errorf("got %v after %d requests, want the visitor's error after the first", err, read)
	}

	const text = "replay: temporary file for the traffic: "
	size, _ := s.file.Seek(0, io.SeekEnd)
	for _, left := range []int64{size - 1, 3} { // the disk lost the last cost, or all but the beginning of the first time
		if err := s.file.Truncate(left); err != nil {
			t.Fatal(err)
		}
		err = s.each(func(*request) error { return nil })
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("a file truncated to %d of %d bytes: got %v", left, size, err)
		}
	}
	s.close()
	checkNothingLeft(t, folder)
	if err := s.each(func(*request) error { return nil }); !errors.Is(err, os.ErrClosed) || !strings.HasPrefix(err.Error(), text) {
		t.Errorf("reading from a closed file: %v", err)
	}
	err = s.write(make([]request, 1<<20))
	if !errors.Is(err, os.ErrClosed) || !strings.HasPrefix(err.Error(), text) {
		t.Errorf("writing to a closed file: %v", err)
	}
}

// However a replay ends, its temporary file is removed.
func TestNoTemporaryFileIsLeft(t *testing.T) {
	reqs := []testRequest{{origin, "a", 1}, {origin, "a", 1}, {origin, "b", 20_000}}
	limit := slidegate.MustParseLimit("1/1m sliding-log")
	failed := errors.New("the reader failed")
	for name, c := range map[string]struct {
		opts Options
		fail error
		want string
	}{
		"suggest":          {opts: Options{Suggest: true, Percent: 50}},
		"no quota":         {opts: Options{Suggest: true}, want: "replay: Suggest: the quota would be 20000: "},
		"reader fails":     {opts: Options{Suggest: true, Percent: 50}, fail: failed, want: "the reader failed"},
		"nothing enabled":  {opts: Options{}},
		"decisions cannot": {opts: Options{Suggest: true, Percent: 50, Decisions: brokenWriter{}}, want: "replay: Decisions: the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := ownTemp(t)
			c.opts.Limits = []slidegate.Limit{limit}
			found, err := Run(context.Background(), &failingTraffic{list: list{rest: reqs}, with: c.fail}, c.opts)
			switch {
			case found == nil || found.Outcome.Refused != 2:
				t.Errorf("got %+v, want the findings so far", found)
			case c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
				t.Errorf("got error %v, want %q", err, c.want)
			}
			checkNothingLeft(t, folder)
		})
	}
}

// If no temporary file can be created, the replay fails before it reads anything.
func TestTemporaryFileCannotBeCreated(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	lines := &list{rest: []testRequest{{origin, "a", 1}}}
	found, err := Run(context.Background(), lines, Options{Limits: []slidegate.Limit{slidegate.PerMinute(1)}, Suggest: true})
	if found != nil || !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "replay: create a temporary file for the traffic: ") {
		t.Errorf("got %v, %v, want no findings and an error about the temporary file", found, err)
	}
	if len(lines.rest) != 1 {
		t.Error("the traffic was read, want none")
	}
}
