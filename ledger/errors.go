package ledger

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Causes a caller can test for.
var (
	// ErrNotFound is returned by Get for an id without a row.
	ErrNotFound = errors.New("ledger: no such row")
	// ErrInvalid is returned for a row or query that can never be right.
	ErrInvalid = errors.New("ledger: invalid")
	// ErrLocked is returned by Open while another process holds the folder.
	ErrLocked = errors.New("ledger: data folder in use")
	// ErrFolder is returned by Open for a folder it cannot use.
	ErrFolder = errors.New("ledger: data folder unusable")
	// ErrDamaged is returned for a file that is no ledger, or a broken one.
	ErrDamaged = errors.New("ledger: file damaged")
	// ErrNewer is returned by Open for a file of a later version.
	ErrNewer = errors.New("ledger: file of a newer version")
	// ErrReadOnly is returned for changes to a ledger opened with ReadOnly.
	ErrReadOnly = errors.New("ledger: opened for reading only")
	// ErrBacklog is returned by Begin while too many rows wait for the disk.
	ErrBacklog = errors.New("ledger: too many unwritten rows")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("ledger: closed")
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
			return fmt.Errorf("%w: %s: %s: %w; move it away to start with an empty one", ErrDamaged, path, doing, err)
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			return fmt.Errorf("%w: %s: %s: %w; it must be readable and writable", ErrFolder, path, doing, err)
		}
	}
	return fmt.Errorf("ledger: %s: %s: %w", path, doing, err)
}

// busy reports whether another connection holds the file.
func busy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}
