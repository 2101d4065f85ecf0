package config

import (
	"errors"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/store"
)

// An error about settings that do not come from a file names the option as a field, and not only in its text.
func TestOptionErrors(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(1)}
	plain := func(s Service) error { _, err := SinglePolicy("p", limits, s); return err }
	_, policy := (&File{}).Policy("api")
	for option, err := range map[string]error{
		"store": plain(Service{Store: "nothing"}), "failure": plain(Service{Failure: store.Modes}),
		"policy": policy,
	} {
		var wrong *options.Error
		if !errors.As(err, &wrong) || wrong.Package != "config" || wrong.Option != option {
			t.Errorf("%s: got error %v, which names %+v", option, err, wrong)
		}
	}
}
