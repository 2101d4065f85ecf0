package history

import (
	"math/rand/v2"
	"time"

	"github.com/slidegate/slidegate/test/faultproxy"
)

// Disturb causes a fault about three times per second until the end, on the connections to a server or, by kill, in the server
// itself, and then heals everything. It counts the faults by name.
func Disturb(wire *faultproxy.Proxy, kill func(), random *rand.Rand, faults map[string]int, end time.Time) {
	pause := func() bool { // lets the processes work, and reports whether time is left
		left := time.Until(end)
		<-time.After(min(left, time.Duration(100+random.IntN(300))*time.Millisecond))
		return time.Now().Before(end)
	}
	names := []string{"kill", "cut", "slow", "stall", "mute", "reset"}
	for i := 0; pause(); i++ {
		name := names[random.IntN(len(names))]
		if i < len(names) {
			name = names[i]
		}
		faults[name]++
		switch name {
		case "kill":
			kill()
		case "cut":
			wire.Cut()
			wire.Mend()
		case "slow":
			wire.Slow(30*time.Millisecond, 25*time.Millisecond)
			pause()
			wire.Heal()
		case "stall": // for far longer than any caller waits
			wire.Slow(2*time.Second, 0)
			pause()
			wire.Heal()
		case "mute":
			wire.Mute(20 * time.Millisecond)
			pause()
			wire.Heal()
		case "reset":
			wire.Reset(5 * time.Millisecond)
			pause()
			wire.Heal()
		}
	}
}
