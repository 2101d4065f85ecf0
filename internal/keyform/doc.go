// Package keyform checks keys that lists, overrides, rulings and operators name: they are written as requests have them, which is how the
// page and the logs show them.
package keyform
