package config

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/slidegate/slidegate"
)

func TestOptionErrorText(t *testing.T) {
	why := errors.New("must be above 0")
	for _, test := range []struct {
		err  OptionError
		want string
	}{
		{OptionError{Package: "server", Option: "TLS.Cert", Err: why}, "server: TLS.Cert: must be above 0"},
		{OptionError{Package: "gate", Within: `policy "api"`, Option: "limits", Err: why}, `gate: policy "api": limits: must be above 0`},
		{OptionError{Package: "traffic", Within: "access.log", Err: why}, "traffic: access.log: must be above 0"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%#v: got %q, want %q", test.err, got, test.want)
		}
	}
	if err := error(&OptionError{Err: fs.ErrNotExist}); !errors.Is(err, fs.ErrNotExist) {
		t.Error("errors.Is does not find the cause")
	}
}

// An error about settings that do not come from a file names the option as a field, and not only in its text.
func TestOptionErrors(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(1)}
	plain := func(s Service) error { _, err := SinglePolicy("p", limits, s); return err }
	_, key := ParseTemplate("{nobody}")
	_, cost := ParseCost("lots")
	_, policy := (&File{}).Policy("api")
	for option, err := range map[string]error{
		"store": plain(Service{Store: "nothing"}), "failure": plain(Service{Failure: "never"}),
		"key": key, "cost": cost, "policy": policy,
	} {
		var wrong *OptionError
		if !errors.As(err, &wrong) || wrong.Package != "config" || wrong.Option != option {
			t.Errorf("%s: got error %v, which names %+v", option, err, wrong)
		}
	}
}
