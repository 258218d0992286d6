// Loads the libraries that pages share, before the scripts that need them, and says which are gone.
"use strict";

{
  const libraries = JSON.parse(document.getElementById("libraries").textContent);
  for (const { file, integrity } of libraries) {
    // Of files on a disk browsers compare no digest; of those of a server they must.
    const compared = location.protocol === "file:" ? "" : ` integrity="${integrity}"`;
    document.write(`<script src="../_static/${file}"${compared}><\/script>`);
  }
  addEventListener("DOMContentLoaded", () => {
    const gone = libraries.filter(({ global }) => !(global in globalThis));
    if (!gone.length) return;
    document.documentElement.classList.remove("scripted"); // what needs scripts is not shown
    const told = document.getElementById("gone");
    told.append(
      "Pictures are missing: this page shares its scripts with other releases, and " +
        `${gone.map(({ name }) => name).join(", ")} could not be read from the folder _static ` +
        "beside the folder of this release. Put that folder there again. Texts, tables and files " +
        "are all here.",
    );
    told.hidden = false;
  });
}
