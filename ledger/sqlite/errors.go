package sqlite

import (
	"errors"
	"fmt"

	"oneslot/ledger"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// fault gives an error of the database its class and says where it happened.
func fault(path, doing string, err error) error {
	if err == nil {
		return nil
	}
	var broken *sqlite.Error
	if errors.As(err, &broken) {
		switch broken.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return fmt.Errorf("%w: %s: %s: %w; move it away to start with an empty one", ledger.ErrDamaged, path, doing, err)
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			return fmt.Errorf("%w: %s: %s: %w; it must be readable and writable", ledger.ErrFolder, path, doing, err)
		}
	}
	return fmt.Errorf("ledger: %s: %s: %w", path, doing, err)
}

// busy reports whether another connection holds the file.
func busy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}
