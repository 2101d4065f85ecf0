package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Server(t), redistest.Cluster(t)
	for name, client := range map[string]func() rueidis.Client{
		"server":  func() rueidis.Client { return server.Client(t) },
		"cluster": func() rueidis.Client { return cluster.Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock(1_767_000_000e6)
			opts := redisstore.Options{Now: clock.Now}
			storetest.RunBoard(t, clock, newStore(t, client(), opts), newStore(t, client(), opts))
		})
	}
}

// Everything on the board expires by itself: a note with its life, and the list of authors with the last note.
func TestBoardExpires(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t).Client(t)
	s := newStore(t, client, redisstore.Options{Grace: 2 * time.Second})
	for author, life := range map[string]time.Duration{"long": time.Hour, "short": time.Minute} {
		if err := s.Post(t.Context(), "look", author, []byte("note"), life); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]time.Duration{"authors": time.Hour, "note-long": time.Hour, "note-short": time.Minute}
	keys, err := do(t, client, "KEYS", "*").AsStrSlice()
	if err != nil || len(keys) != len(want) {
		t.Errorf("got the keys %q, %v; want %d", keys, err, len(want))
	}
	for _, key := range keys {
		_, what, _ := strings.Cut(key, "%")
		life := (want[what] + 2*time.Second).Milliseconds()
		if left := number(t, client, "PTTL", key); left > life || left < life-5000 {
			t.Errorf("%s expires in %d ms, want %d", key, left, life)
		}
	}
}

// What another program has written is not taken for a note, and is bounded.
func TestForeignNotes(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t).Client(t)
	s := newStore(t, client, redisstore.Options{})
	if err := s.Post(t.Context(), "look", "ok", []byte("note"), time.Hour); err != nil {
		t.Fatal(err)
	}
	const ends = "9000000000000000 "
	authors := "\n" + ends + "A b\n" + strings.Repeat("x", 70) + "\n" + ends + "large\n" + ends + "gone\n" + ends + "odd\nrubbish\n" + ends + "ok\n"
	do(t, client, "SET", "slidegate:{look}%authors", ends+authors)
	do(t, client, "SET", "slidegate:{look}%note-large", ends+strings.Repeat("x", 40_000))
	do(t, client, "SET", "slidegate:{look}%note-odd", "odd")
	if notes, err := s.Notes(t.Context(), "look"); err != nil || len(notes) != 1 || string(notes["ok"]) != "note" {
		t.Errorf("got %q, %v; want the note that is valid", notes, err)
	}
	if err := s.Post(t.Context(), "look", "more", nil, time.Minute); err != nil {
		t.Error(err)
	}
	do(t, client, "SET", "slidegate:{other}%authors", strings.Repeat("9", 400))
	if notes, err := s.Notes(t.Context(), "other"); err != nil || len(notes) != 0 {
		t.Errorf("got %q, %v; want none", notes, err)
	}
}
