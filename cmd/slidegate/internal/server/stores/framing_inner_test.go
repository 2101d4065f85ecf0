package stores

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sample appends a message as Redis may send it, nested at most depth levels deep.
func sample(r *rand.Rand, to []byte, depth int) []byte {
	texts := []string{"", "OK", "a\r\nb", strings.Repeat("x", 3000), "$5\r\nhello\r\n"}
	text := texts[r.IntN(len(texts))]
	kinds := 11
	if depth == 0 {
		kinds = 8
	}
	switch r.IntN(kinds) {
	case 0:
		return append(to, "+OK\r\n"...)
	case 1:
		return fmt.Appendf(to, "-MOVED %d 127.0.0.1:7000\r\n", r.IntN(16384))
	case 2:
		return fmt.Appendf(to, ":%d\r\n", r.Int64()-r.Int64())
	case 3:
		return append(to, "$-1\r\n"...)
	case 4:
		return append(to, "_\r\n"...)
	case 5:
		return append(to, "#t\r\n,1.5e9\r\n"[:4]...)
	case 6:
		return append(to, "*-1\r\n"...)
	case 7:
		return fmt.Appendf(to, "$%d\r\n%s\r\n", len(text), text)
	}
	n := r.IntN(4)
	to = fmt.Appendf(to, "*%d\r\n", n)
	if r.IntN(2) == 0 {
		to = fmt.Appendf(to[:len(to)-4], "%%%d\r\n", n)
		n *= 2
	}
	for range n {
		to = sample(r, to, depth-1)
	}
	return to
}

// TestFramingCountsMessages: messages are counted correctly, however the network splits them.
func TestFramingCountsMessages(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 2000 {
		var stream []byte
		want := 1 + r.IntN(5)
		for range want {
			stream = sample(r, stream, maxDepth-1)
		}
		var f framing
		got := 0
		for rest := stream; len(rest) > 0; {
			n := 1 + r.IntN(min(len(rest), 1+r.IntN(4000)))
			messages, err := f.feed(rest[:n])
			if err != nil {
				t.Fatalf("seed %d, round %d: %v in %q", seed, round, err, stream)
			}
			got, rest = got+messages, rest[n:]
		}
		if got != want || f != (framing{state: atKind, kind: f.kind, line: f.line, last: f.last, value: f.value, minus: f.minus, head: f.head, words: f.words}) {
			t.Fatalf("seed %d, round %d: got %d messages and %+v, want %d, in %q", seed, round, got, f, want, stream)
		}
	}
}

// FuzzFramingSplit checks that what framing accepts does not depend on how the network splits it.
func FuzzFramingSplit(f *testing.F) {
	for _, seed := range []string{"$12\r\nhello, world\r\n", "$1\r2\r\n", "*2\r\n:1\r\n$-1\r\n", "-MOVED 1 h:1\r\n", "+a\rb\r\n", "%1\r\n+a\r\n_\r\n", ">1\r\n+a\r\n", "$0\r\r\n\r\n",
		"*2\r\n$16777216\r\n"} {
		for at := range 3 {
			f.Add([]byte(seed), uint16(at+1), false)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint16, commands bool) {
		cut := min(int(at), len(text))
		want, whole, wantErr := feedAll(commands, text)
		for name, pieces := range map[string][][]byte{"two": {text[:cut], text[cut:]}, "bytes": slices.Collect(slices.Chunk(text, 1))} {
			got, after, err := feedAll(commands, pieces...)
			if got != want || (err == nil) != (wantErr == nil) || err == nil && (after.size != whole.size || after.state != whole.state || after.depth != whole.depth) {
				t.Fatalf("%q in %s: got %d messages, %v, %d bytes; want %d, %v, %d", text, name, got, err, after.size, want, wantErr, whole.size)
			}
		}
	})
}

// feedAll feeds pieces until one is rejected.
func feedAll(commands bool, pieces ...[]byte) (messages int, f framing, err error) {
	f.commands, f.pushes = commands, !commands
	for _, piece := range pieces {
		n, err := f.feed(piece)
		if messages += n; err != nil {
			return messages, f, err
		}
	}
	return messages, f, nil
}

func BenchmarkFraming(b *testing.B) {
	command := "*5\r\n$7\r\nEVALSHA\r\n$40\r\n" + strings.Repeat("a", 40) + "\r\n$1\r\n1\r\n$70\r\n" + strings.Repeat("k", 70) + "\r\n$44\r\n" + strings.Repeat("n", 44) + "\r\n"
	for name, text := range map[string]string{"command": command, "reply": "$33\r\n" + strings.Repeat("x", 33) + "\r\n"} {
		b.Run(name, func(b *testing.B) {
			var f framing
			message := []byte(text)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := f.feed(message); n != 1 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
