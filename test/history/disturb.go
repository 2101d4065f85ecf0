package history

import (
	"math/rand/v2"
	"time"

	"github.com/slidegate/slidegate/test/faultproxy"
)

// Disturb does something bad about three times a second until the end, to the way to a server or, by kill, to the server, and then
// makes all good again. It counts what it did in faults.
func Disturb(wire *faultproxy.Wire, kill func(), random *rand.Rand, faults map[string]int, end time.Time) {
	pause := func() bool { // lets the processes work, and reports whether there is time for more
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
		case "stall": // for far longer than anybody waits
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
