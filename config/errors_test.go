package config

import (
	"errors"
	"testing"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/options"
)

// An error about settings that do not come from a file names the option as a field, and not only in its text.
func TestOptionErrors(t *testing.T) {
	_, policy := (&File{}).Policy("api")
	_, v4 := HTTP(&File{Service: Service{AddressGroups: clientip.Grouping{V4: 33}}})
	_, v6 := HTTP(&File{Service: Service{AddressGroups: clientip.Grouping{V6: 129}}})
	for option, err := range map[string]error{"policy": policy, "address_groups.ipv4": v4, "address_groups.ipv6": v6} {
		var wrong *options.Error
		if !errors.As(err, &wrong) || wrong.Package != "config" || wrong.Option != option {
			t.Errorf("%s: got error %v, which names %+v", option, err, wrong)
		}
	}
}
