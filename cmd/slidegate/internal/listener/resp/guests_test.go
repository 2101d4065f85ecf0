package resp_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/internal/testkit"
)

// A client has some seconds to authenticate, whatever else it sends; then it is like any other.
func TestTimeToAuthenticate(t *testing.T) {
	inBubble(t, resp.Options{Tokens: []string{"token"}}, func(t *testing.T, w *world, p *pipes) {
		silent, busy, half, friend := p.dial(t), p.dial(t), p.dial(t), p.dial(t)
		half.send("*1\r\n$4\r\nPI")
		for range 9 {
			testkit.Pass(time.Second)
			busy.exchange("PING", "-NOAUTH Authentication required.")
		}
		friend.exchange("AUTH token", "+OK")
		if !silent.alive() || !busy.alive() || !half.alive() {
			t.Fatal("ended too early")
		}
		testkit.Pass(time.Second)
		if silent.alive() || busy.alive() || half.alive() {
			t.Error("still connected after 10 s without the token")
		}
		testkit.Pass(20 * time.Minute)
		friend.exchange("PING", "+PONG")
		friend.exchange("RESET", "+RESET") // undoes the authentication
		testkit.Pass(9 * time.Second)
		friend.exchange("AUTH token", "+OK")
		testkit.Pass(20 * time.Minute)
		friend.exchange("RESET", "+RESET")
		if testkit.Pass(10 * time.Second); friend.alive() {
			t.Error("still connected 10 s after RESET")
		}
		for _, c := range []*client{silent, busy, half, friend} {
			_ = c.Close()
		}
	})
}

func TestWrongTokens(t *testing.T) {
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled."
	w := open(t, resp.Options{Tokens: []string{"token"}})
	for _, attempt := range []string{"AUTH guess", "AUTH any guess", "HELLO 3 AUTH any guess"} {
		c := w.dial(t)
		for range 5 {
			c.exchange(attempt, wrong)
		}
		c.expectClosed()
	}
	c := w.dial(t)
	c.send(frame("AUTH", "1") + frame("AUTH", "2") + frame("AUTH", "3") + frame("AUTH", "4") + frame("AUTH", "5") + frame("AUTH", "token"))
	c.expect(wrong + "\r\n" + wrong + "\r\n" + wrong + "\r\n" + wrong + "\r\n" + wrong + "\r\n")
	c.expectClosed()
	c = w.dial(t)
	c.exchange("AUTH guess", wrong)
	c.exchange("AUTH token", "+OK")
	c.exchange("MULTI", "+OK") // guesses in a transaction count too
	for range 5 {
		c.exchange("AUTH guess", "+QUEUED")
	}
	c.exchange("EXEC", "*5", wrong, wrong, wrong, wrong)
	c.expectClosed()
}

// Silent clients do not keep out one that authenticates.
func TestGuestsDoNotKeepOthersOut(t *testing.T) {
	inBubble(t, resp.Options{Tokens: []string{"token"}, MaxGuests: 2}, func(t *testing.T, w *world, p *pipes) {
		friends, strangers := []*client{}, []*client{}
		for range 8 {
			for range 20 {
				strangers = append(strangers, p.dial(t))
			}
			friend := p.dial(t)
			friend.exchange("AUTH token", "+OK")
			friends = append(friends, friend)
		}
		if n := w.connected(); n != 9 {
			t.Errorf("got %d connected, want the 8 with the token and the last without", n)
		}
		for _, friend := range friends {
			friend.exchange("PING", "+PONG")
		}
		for _, c := range append(strangers, friends...) {
			_ = c.Close()
		}
	})
}
