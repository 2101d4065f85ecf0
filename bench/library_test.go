package main

import (
	"testing"
	"time"
)

// Every library must admit exactly the quota and then refuse, or the comparison would not be fair.
func TestLibrariesAdmitTheQuota(t *testing.T) {
	const quota = 100
	for _, l := range libraries() {
		t.Run(l.name, func(t *testing.T) {
			opened, err := l.open(spec{quota: quota, window: time.Hour, keys: 1000})
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			for _, key := range []string{newKeys(0, 1).at(0), newKeys(1, 1).at(0)} {
				if first := drive(opened, keys{key, 1}, 0, quota); first != quota {
					t.Errorf("got %d of the first %d requests admitted, want all", first, quota)
				}
				if more := drive(opened, keys{key, 1}, 0, quota); more != 0 {
					t.Errorf("got %d requests admitted beyond the quota, want none", more)
				}
			}
		})
	}
}

// Every library must admit again after its window, or the expiry scenario would measure nothing.
func TestLibrariesAdmitAgainAfterTheWindow(t *testing.T) {
	const quota, window = 5, 20 * time.Millisecond
	for _, l := range libraries() {
		t.Run(l.name, func(t *testing.T) {
			opened, err := l.open(spec{quota: quota, window: window, keys: 1000, sweep: window / 2})
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			key := newKeys(0, 1)
			drive(opened, key, 0, 3*quota)
			for deadline := time.Now().Add(5 * time.Second); !opened.Allow(key.at(0)); {
				if time.Now().After(deadline) {
					t.Fatal("still refused long after the window")
				}
			}
		})
	}
}

// The libraries must also keep the limit when several goroutines call them, since that is how they are measured.
func TestLibrariesKeepTheLimitConcurrently(t *testing.T) {
	const quota = 1000
	for _, l := range libraries() {
		t.Run(l.name, func(t *testing.T) {
			opened, err := l.open(spec{quota: quota, window: time.Hour, keys: 1000})
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			list := newKeys(0, 1)
			s := timed(opened, []keys{list, list, list, list}, 0, 4*quota)
			// throttled gives up after ten attempts, which counts as a refusal; no library admits more than the quota.
			if s.passed > quota || s.passed < quota*9/10 {
				t.Errorf("4 goroutines: got %d admitted, want %d, or at least nine tenths of it", s.passed, quota)
			}
		})
	}
}

func TestRowsHaveDifferentNames(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range libraries() {
		if seen[l.name] {
			t.Errorf("duplicate row %q", l.name)
		}
		seen[l.name] = true
	}
}
