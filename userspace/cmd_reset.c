// SPDX-License-Identifier: GPL-2.0
/* tcplat reset: zero every counter and histogram. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "tcplat.h"
#include "tree.h"

static int write_one(int dir, const char *name)
{
	struct stat st;
	int err = 0;
	int fd;

	/* O_TRUNC is nothing to sysfs and leaves a copied tree clean. */
	fd = openat(dir, name,
		    O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno;
	if (fstat(fd, &st))
		err = errno;
	else if (!S_ISREG(st.st_mode))
		err = EBADMSG;
	else if (write(fd, "1\n", 2) != 2)
		err = errno;
	if (close(fd) && !err)
		err = errno;
	return err;
}

static void run(const char *root, int argc, char **argv)
{
	struct tree tree;
	char *path;
	int err;

	(void)argc;
	(void)argv;
	if (!tree_open(&tree, root))
		return;
	path = xasprintf("%s/reset", tree.path);
	err = write_one(tree.fd, "reset");
	if (err == EACCES || err == EPERM)
		report(STATUS_DENIED,
		       "%s: no permission to write it: run 'tcplat reset' as root",
		       path);
	else if (err == EBADMSG)
		report(STATUS_FAULT, "%s: is not a regular file", path);
	else if (err)
		report(STATUS_FAULT, "%s: %s", path, strerror(err));
	free(path);
	tree_close(&tree);
}

const struct cmd cmd_reset = {
	.name = "reset",
	.brief = "Zero every counter and histogram (as root)",
	.run = run,
};
