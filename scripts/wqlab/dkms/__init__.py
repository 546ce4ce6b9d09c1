# SPDX-License-Identifier: GPL-2.0
"""The modules as a Debian package that DKMS builds for each kernel of a machine.

package.py      makes the package
dkms.conf       tells DKMS what is built for which kernel; lib/cmwq/Kbuild builds it
control         what apt shows
postinst prerm  build and remove the modules when the package comes and goes
copyright       the licence, in Debian's form

@NAME@ and the like are replaced in all but the first.
"""
